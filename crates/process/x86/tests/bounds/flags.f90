! Loops of Fortran that are left by a flag; as in flags.c.
module flags
  implicit none
  integer :: nt, it
  logical :: by(3) = [.true., .false., .false.]
  real(8) :: t, dt = 0.25d0, t_end
  interface
    subroutine fstep(i) bind(C, name='fstep')
      integer :: i
    end subroutine
    subroutine work(all, n) bind(C, name='work')
      real(8) :: all(*)
      integer, value :: n
    end subroutine
  end interface
end module
subroutine asked_steps(n) bind(C); use flags; integer, value :: n; logical :: done; real(8) :: x(2); x = 0; it = 0; nt = n; done = .false.; do while (.not. done); call fstep(it); it = it + 1; if (it >= nt) done = .true.; call work(x, 0); end do; end
subroutine asked_time(n) bind(C); use flags; integer, value :: n; logical :: done; real(8) :: x(2); x = 0; t = 0; t_end = (n - 0.5d0) * dt; done = .false.; do while (.not. done); call fstep(it); t = t + dt; if (t >= t_end) done = .true.; call work(x, 0); end do; end
subroutine asked_chosen(n) bind(C); use flags; integer, value :: n; logical :: done; integer :: step; real(8) :: x(2); x = 0; t = 0; step = 0; nt = n; t_end = (n - 0.5d0) * dt; done = .false.; do while (.not. done); step = step + 1; call fstep(step); t = t + dt; if (by(1)) then; if (step >= nt) done = done .or. .true.; end if; if (by(2)) then; if (t >= t_end) done = done .or. .true.; end if; call work(x, 0); end do; end
subroutine asked_is(n) bind(C); use flags; integer, value :: n; logical :: runs; real(8) :: x(2); x = 0; it = 0; nt = n; runs = .true.; do while (runs); call fstep(it); it = it + 1; runs = it < nt; call work(x, 0); end do; end
