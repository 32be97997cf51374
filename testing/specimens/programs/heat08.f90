! Fortran specimen with `use mpi_f08`: entry points "mpi_x_f08_" (Open MPI) or "mpi_x_f08ts_" (MPICH). What it
! computes, and its known answer: heat_body.inc. --mark calls measuremark(iteration) from mark.f90.
program heat08
  use mpi_f08
  implicit none
  character(*), parameter :: program_name = 'heat08'
  external :: gt_hook
#ifdef MARK
  external :: measuremark
#endif
#include "heat_body.inc"
end program heat08
