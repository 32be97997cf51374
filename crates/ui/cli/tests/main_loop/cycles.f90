! Cycles of three seconds around the iterations of a solver, each of which prints its number, from 0.
module cycles
    use mpi
    implicit none
    double precision :: value = 1
    interface
        integer(c_int) function usleep(microseconds) bind(c, name='usleep')
            use iso_c_binding
            integer(c_int), value :: microseconds
        end function
    end interface
contains
    subroutine solve(iterations, tolerance)
        integer, intent(in) :: iterations
        double precision, intent(in) :: tolerance
        double precision :: total
        integer :: iteration, error, slept
        do iteration = 1, iterations
            slept = usleep(50000)
            call MPI_Allreduce(value, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
            value = total / 2
            if (total < tolerance) exit
        end do
    end subroutine

    subroutine tell(number)
        integer, intent(in) :: number
        integer :: rank, error
        call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
        if (rank == 0) print '(I0)', number - 1
        if (rank == 0) flush (6)
    end subroutine

    subroutine evolve(last, iterations)
        integer, intent(in) :: last
        integer, volatile :: iterations
        integer :: number
        do number = 1, last
            call tell(number)
            call solve(iterations, 1d-9)
        end do
    end subroutine
end module

program main
    use cycles
    implicit none
    integer, volatile :: iterations = 60
    integer :: error
    call MPI_Init(error)
    call evolve(500, iterations)
    call MPI_Finalize(error)
end program
