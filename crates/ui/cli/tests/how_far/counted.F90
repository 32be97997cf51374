! Steps of a DO loop, up, down, by three, with its number printed in it, and of a DO WHILE with a second end.
! From a SIGUSR1 on they compute nothing. A step takes as long on a slow machine as on a fast one, and leaves the
! processor to others.
module flow
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  integer :: rank, ranks, ierr
  integer :: done = 0
  integer, volatile :: computes = 1
  double precision, parameter :: step_s = 2.5d-3
  interface
    integer(c_int) function gettimeofday(now, zone) bind(C)
      import :: c_int, c_int64_t, c_ptr
      integer(c_int64_t) :: now(2)
      type(c_ptr), value :: zone
    end function
    integer(c_int) function usleep(us) bind(C)
      import :: c_int
      integer(c_int), value :: us
    end function
  end interface
  double precision :: state = 1
contains
  double precision function now_s()
    integer(c_int64_t) :: now(2)
    integer :: failed
    failed = gettimeofday(now, c_null_ptr)
    now_s = dble(now(1)) + 1d-6 * dble(now(2))
  end function

  subroutine step()
    double precision :: field(4)
    integer(c_int64_t) :: now(2)
    double precision :: end_s
    end_s = now_s() + step_s
    do while (computes == 1 .and. now_s() < end_s)
      state = state + sqrt(1 + state) * 1d-9
      ierr = usleep(500)
    end do
    field = state
    call MPI_Sendrecv_replace(field, 4, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 1, mod(rank + ranks - 1, ranks), 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    done = done + 1
    if (rank == 0) then
      ierr = gettimeofday(now, c_null_ptr)
      write(*, '(i0, 1x, i0, ".", i6.6)') done, now(1), now(2)
      flush(6)
    end if
  end subroutine

  subroutine hurry()
    computes = 0
  end subroutine

  subroutine solve(steps)
    integer, intent(in) :: steps
    integer :: it
#if FORM == 0
    do it = 1, steps
      call step()
    end do
#elif FORM == 1
    do it = steps, 1, -1
      call step()
    end do
#elif FORM == 2
    do it = 3, 3 * steps, 3
      call step()
      if (mod(it, 1000) == 0) write(0, *) 'at ', it
    end do
#elif FORM == 3
    it = 0
    do while (state > 0 .and. it < 2 * steps)
      call step()
      if (done == steps) state = -1
      it = it + 1
    end do
#elif FORM == 4
    do it = 1, steps
      if (mod(it, 5) == 0) then
        done = done + 1
        cycle
      end if
      call step()
    end do
#endif
  end subroutine
end module

program counted
  use flow
  implicit none
  character(16) :: text
  integer :: steps
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, text)
  read(text, *) steps
  call signal(10, hurry)
  call solve(steps)
  call MPI_Finalize(ierr)
end program
