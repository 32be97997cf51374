//! The functions that need no other process: queries, constructors of handles, conversions, the tools interface.
//!
//! They are listed so that a user who names one is told that it is local, not that it is unknown, and because some of
//! them end handles that are remembered elsewhere.
//!
//! Next: `catalogue/table.rs` for the functions that communicate.

use crate::accounting::Accounting;
use crate::function::{Class, HandleKind, MpiFunction};

/// The entry of one local function.
pub(super) fn function(name: &'static str) -> MpiFunction {
    let invalidates = (name == "MPI_Type_free").then_some(HandleKind::Datatype);
    MpiFunction { name, class: Class::Local, synchronising: false, accounting: Accounting::NONE, invalidates }
}

/// All local functions, sorted.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "MPIX_Comm_failure_ack", "MPIX_Comm_failure_get_acked", "MPIX_Comm_is_revoked", "MPIX_Delete_error_class",
    "MPIX_Delete_error_code", "MPIX_Delete_error_string", "MPIX_GPU_query_support", "MPIX_Grequest_class_allocate",
    "MPIX_Grequest_class_create", "MPIX_Grequest_start", "MPIX_Query_cuda_support", "MPIX_Query_hip_support",
    "MPIX_Query_rocm_support", "MPIX_Query_ze_support", "MPI_Abi_get_fortran_booleans", "MPI_Abi_get_fortran_info",
    "MPI_Abi_get_info", "MPI_Abi_get_version", "MPI_Abi_set_fortran_booleans", "MPI_Abi_set_fortran_info",
    "MPI_Add_error_class", "MPI_Add_error_code", "MPI_Add_error_string", "MPI_Address", "MPI_Aint_add",
    "MPI_Aint_diff", "MPI_Alloc_mem", "MPI_Attr_delete", "MPI_Attr_get", "MPI_Attr_put", "MPI_Buffer_attach",
    "MPI_Buffer_attach_c", "MPI_Cart_coords", "MPI_Cart_get", "MPI_Cart_rank", "MPI_Cart_shift", "MPI_Cartdim_get",
    "MPI_Comm_attach_buffer", "MPI_Comm_attach_buffer_c", "MPI_Comm_c2f", "MPI_Comm_call_errhandler",
    "MPI_Comm_compare", "MPI_Comm_create_errhandler", "MPI_Comm_create_keyval", "MPI_Comm_delete_attr",
    "MPI_Comm_f2c", "MPI_Comm_free_keyval", "MPI_Comm_fromint", "MPI_Comm_get_attr", "MPI_Comm_get_errhandler",
    "MPI_Comm_get_info", "MPI_Comm_get_name", "MPI_Comm_get_parent", "MPI_Comm_group", "MPI_Comm_rank",
    "MPI_Comm_remote_group", "MPI_Comm_remote_size", "MPI_Comm_set_attr", "MPI_Comm_set_errhandler",
    "MPI_Comm_set_name", "MPI_Comm_size", "MPI_Comm_test_inter", "MPI_Comm_toint", "MPI_Dims_create",
    "MPI_Dist_graph_neighbors", "MPI_Dist_graph_neighbors_count", "MPI_Errhandler_c2f", "MPI_Errhandler_create",
    "MPI_Errhandler_f2c", "MPI_Errhandler_free", "MPI_Errhandler_fromint", "MPI_Errhandler_get",
    "MPI_Errhandler_set", "MPI_Errhandler_toint", "MPI_Error_class", "MPI_Error_string", "MPI_File_c2f",
    "MPI_File_call_errhandler", "MPI_File_create_errhandler", "MPI_File_f2c", "MPI_File_fromint",
    "MPI_File_get_amode", "MPI_File_get_atomicity", "MPI_File_get_byte_offset", "MPI_File_get_errhandler",
    "MPI_File_get_group", "MPI_File_get_info", "MPI_File_get_position", "MPI_File_get_type_extent",
    "MPI_File_get_type_extent_c", "MPI_File_get_view", "MPI_File_seek", "MPI_File_set_errhandler", "MPI_File_toint",
    "MPI_Finalized", "MPI_Free_mem", "MPI_Get_address", "MPI_Get_count", "MPI_Get_count_c", "MPI_Get_elements",
    "MPI_Get_elements_c", "MPI_Get_elements_x", "MPI_Get_hw_resource_info", "MPI_Get_library_version",
    "MPI_Get_processor_name", "MPI_Get_version", "MPI_Graph_get", "MPI_Graph_neighbors",
    "MPI_Graph_neighbors_count", "MPI_Graphdims_get", "MPI_Grequest_complete", "MPI_Grequest_start",
    "MPI_Group_c2f", "MPI_Group_compare", "MPI_Group_difference", "MPI_Group_excl", "MPI_Group_f2c",
    "MPI_Group_free", "MPI_Group_from_session_pset", "MPI_Group_fromint", "MPI_Group_incl",
    "MPI_Group_intersection", "MPI_Group_range_excl", "MPI_Group_range_incl", "MPI_Group_rank", "MPI_Group_size",
    "MPI_Group_toint", "MPI_Group_translate_ranks", "MPI_Group_union", "MPI_Info_c2f", "MPI_Info_create",
    "MPI_Info_create_env", "MPI_Info_delete", "MPI_Info_dup", "MPI_Info_f2c", "MPI_Info_free", "MPI_Info_fromint",
    "MPI_Info_get", "MPI_Info_get_nkeys", "MPI_Info_get_nthkey", "MPI_Info_get_string", "MPI_Info_get_valuelen",
    "MPI_Info_set", "MPI_Info_toint", "MPI_Initialized", "MPI_Is_thread_main", "MPI_Keyval_create",
    "MPI_Keyval_free", "MPI_Message_c2f", "MPI_Message_f2c", "MPI_Message_fromint", "MPI_Message_toint",
    "MPI_Op_c2f", "MPI_Op_commutative", "MPI_Op_create", "MPI_Op_create_c", "MPI_Op_f2c", "MPI_Op_free",
    "MPI_Op_fromint", "MPI_Op_toint", "MPI_Pack", "MPI_Pack_c", "MPI_Pack_external", "MPI_Pack_external_c",
    "MPI_Pack_external_size", "MPI_Pack_external_size_c", "MPI_Pack_size", "MPI_Pack_size_c", "MPI_Pcontrol",
    "MPI_Query_thread", "MPI_Reduce_local", "MPI_Reduce_local_c", "MPI_Register_datarep", "MPI_Register_datarep_c",
    "MPI_Remove_error_class", "MPI_Remove_error_code", "MPI_Remove_error_string", "MPI_Request_c2f",
    "MPI_Request_f2c", "MPI_Request_fromint", "MPI_Request_toint", "MPI_Session_attach_buffer",
    "MPI_Session_attach_buffer_c", "MPI_Session_c2f", "MPI_Session_call_errhandler",
    "MPI_Session_create_errhandler", "MPI_Session_f2c", "MPI_Session_fromint", "MPI_Session_get_errhandler",
    "MPI_Session_get_info", "MPI_Session_get_nth_pset", "MPI_Session_get_num_psets", "MPI_Session_get_pset_info",
    "MPI_Session_set_errhandler", "MPI_Session_toint", "MPI_Status_c2f", "MPI_Status_c2f08", "MPI_Status_f082c",
    "MPI_Status_f082f", "MPI_Status_f2c", "MPI_Status_f2f08", "MPI_Status_get_error", "MPI_Status_get_source",
    "MPI_Status_get_tag", "MPI_Status_set_cancelled", "MPI_Status_set_elements", "MPI_Status_set_elements_c",
    "MPI_Status_set_elements_x", "MPI_Status_set_error", "MPI_Status_set_source", "MPI_Status_set_tag",
    "MPI_T_category_changed", "MPI_T_category_get_categories", "MPI_T_category_get_cvars",
    "MPI_T_category_get_events", "MPI_T_category_get_index", "MPI_T_category_get_info", "MPI_T_category_get_num",
    "MPI_T_category_get_num_events", "MPI_T_category_get_pvars", "MPI_T_cvar_get_index", "MPI_T_cvar_get_info",
    "MPI_T_cvar_get_num", "MPI_T_cvar_handle_alloc", "MPI_T_cvar_handle_free", "MPI_T_cvar_read",
    "MPI_T_cvar_write", "MPI_T_enum_get_info", "MPI_T_enum_get_item", "MPI_T_event_callback_get_info",
    "MPI_T_event_callback_set_info", "MPI_T_event_copy", "MPI_T_event_get_index", "MPI_T_event_get_info",
    "MPI_T_event_get_num", "MPI_T_event_get_source", "MPI_T_event_get_timestamp", "MPI_T_event_handle_alloc",
    "MPI_T_event_handle_free", "MPI_T_event_handle_get_info", "MPI_T_event_handle_set_info", "MPI_T_event_read",
    "MPI_T_event_register_callback", "MPI_T_event_set_dropped_handler", "MPI_T_finalize", "MPI_T_init_thread",
    "MPI_T_pvar_get_index", "MPI_T_pvar_get_info", "MPI_T_pvar_get_num", "MPI_T_pvar_handle_alloc",
    "MPI_T_pvar_handle_free", "MPI_T_pvar_read", "MPI_T_pvar_readreset", "MPI_T_pvar_reset",
    "MPI_T_pvar_session_create", "MPI_T_pvar_session_free", "MPI_T_pvar_start", "MPI_T_pvar_stop",
    "MPI_T_pvar_write", "MPI_T_source_get_info", "MPI_T_source_get_num", "MPI_T_source_get_timestamp",
    "MPI_Test_cancelled", "MPI_Topo_test", "MPI_Type_c2f", "MPI_Type_commit", "MPI_Type_contiguous",
    "MPI_Type_contiguous_c", "MPI_Type_create_darray", "MPI_Type_create_darray_c", "MPI_Type_create_f90_complex",
    "MPI_Type_create_f90_integer", "MPI_Type_create_f90_real", "MPI_Type_create_hindexed",
    "MPI_Type_create_hindexed_block", "MPI_Type_create_hindexed_block_c", "MPI_Type_create_hindexed_c",
    "MPI_Type_create_hvector", "MPI_Type_create_hvector_c", "MPI_Type_create_indexed_block",
    "MPI_Type_create_indexed_block_c", "MPI_Type_create_keyval", "MPI_Type_create_resized",
    "MPI_Type_create_resized_c", "MPI_Type_create_struct", "MPI_Type_create_struct_c", "MPI_Type_create_subarray",
    "MPI_Type_create_subarray_c", "MPI_Type_delete_attr", "MPI_Type_dup", "MPI_Type_extent", "MPI_Type_f2c",
    "MPI_Type_free", "MPI_Type_free_keyval", "MPI_Type_fromint", "MPI_Type_get_attr", "MPI_Type_get_contents",
    "MPI_Type_get_contents_c", "MPI_Type_get_envelope", "MPI_Type_get_envelope_c", "MPI_Type_get_extent",
    "MPI_Type_get_extent_c", "MPI_Type_get_extent_x", "MPI_Type_get_name", "MPI_Type_get_true_extent",
    "MPI_Type_get_true_extent_c", "MPI_Type_get_true_extent_x", "MPI_Type_get_value_index", "MPI_Type_hindexed",
    "MPI_Type_hvector", "MPI_Type_indexed", "MPI_Type_indexed_c", "MPI_Type_lb", "MPI_Type_match_size",
    "MPI_Type_set_attr", "MPI_Type_set_name", "MPI_Type_size", "MPI_Type_size_c", "MPI_Type_size_x",
    "MPI_Type_struct", "MPI_Type_toint", "MPI_Type_ub", "MPI_Type_vector", "MPI_Type_vector_c", "MPI_Unpack",
    "MPI_Unpack_c", "MPI_Unpack_external", "MPI_Unpack_external_c", "MPI_Win_attach", "MPI_Win_c2f",
    "MPI_Win_call_errhandler", "MPI_Win_create_errhandler", "MPI_Win_create_keyval", "MPI_Win_delete_attr",
    "MPI_Win_detach", "MPI_Win_f2c", "MPI_Win_free_keyval", "MPI_Win_fromint", "MPI_Win_get_attr",
    "MPI_Win_get_errhandler", "MPI_Win_get_group", "MPI_Win_get_info", "MPI_Win_get_name", "MPI_Win_set_attr",
    "MPI_Win_set_errhandler", "MPI_Win_set_name", "MPI_Win_shared_query", "MPI_Win_shared_query_c", "MPI_Win_toint",
    "MPI_Wtick", "MPI_Wtime",
];
