! The function by which a user of trimtab can mark iterations of a Fortran program: symbol measuremark_. In a file of
! its own, so that it is not inlined. Linked into the Fortran specimens of builds with a mark.
subroutine measuremark(iteration)
  implicit none
  integer, intent(in) :: iteration
  integer, volatile, save :: calls = 0, last = -1
  last = iteration
  calls = calls + 1
end subroutine measuremark
