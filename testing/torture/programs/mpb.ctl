; Fields begin at random values: the same ones in each run.
(set! deterministic? true)
(set! num-bands 8)
(set! k-points (interpolate 39 (list (vector3 0 0 0) (vector3 0.5 0 0) (vector3 0.5 0.5 0) (vector3 0.5 0.5 0.5))))
(set! geometry-lattice (make lattice (size 1 1 1)))
(set! geometry (list (make sphere (center 0 0 0) (radius 0.3) (material (make dielectric (epsilon 12))))))
(set! resolution 24)
(run)
