//! What is MPI? Ranks, functions, datatypes and libraries; pure
