! Fortran specimen with `use mpi`: entry points "mpi_x_". What it computes, and its known answer: heat_body.inc.
! --mark calls measuremark(iteration), symbol measuremark_, from mark.f90. Next: heat08.f90.
program heat
  use mpi
  implicit none
  character(*), parameter :: program_name = 'heat'
  external :: gt_hook
#ifdef MARK
  external :: measuremark
#endif
#include "heat_body.inc"
end program heat
