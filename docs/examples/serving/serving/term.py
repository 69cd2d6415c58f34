"""A convex term: a load that is away from where it should be costs the square of that."""

from copter import ConvexTerm


class Quadratic(ConvexTerm):
    """stiffness (t - wanted)^2 / 2"""

    def __init__(self, stiffness, wanted, image=1.0):
        super().__init__(image, stiffness=stiffness, wanted=wanted)

    @staticmethod
    def value(t, stiffness, wanted):
        return 0.5 * stiffness * (t - wanted) ** 2

    @staticmethod
    def slope(t, stiffness, wanted):
        return stiffness * (t - wanted)

    @staticmethod
    def curvature(t, stiffness, wanted):
        return stiffness
