! Loops of Fortran that are left by what a called function says; as in asked.c.
module asked
  implicit none
  integer :: nt, it
  real(8) :: t, dt = 0.25d0, t_end
  interface
    subroutine fstep(i) bind(C, name='fstep')
      integer :: i
    end subroutine
  end interface
contains
  logical function finished(t)
    real(8), intent(in) :: t
    finished = t >= t_end
  end function
  logical function more()
    more = it < nt
  end function
  integer function still(i)
    integer, intent(in) :: i
    still = nt - i
  end function
end module
subroutine asked_finished(n) bind(C); use asked; integer, value :: n; t = 0; t_end = (n - 0.5d0) * dt; do while (.not. finished(t)); call fstep(it); t = t + dt; end do; end
subroutine asked_more(n) bind(C); use asked; integer, value :: n; it = 0; nt = n; do while (more()); call fstep(it); it = it + 1; end do; end
subroutine asked_exit(n) bind(C); use asked; integer, value :: n; it = 0; nt = n; do; if (.not. more()) exit; call fstep(it); it = it + 1; end do; end
subroutine asked_still(n) bind(C); use asked; integer, value :: n; integer :: i; i = 0; nt = n; do while (still(i) > 0); call fstep(i); i = i + 1; end do; end
