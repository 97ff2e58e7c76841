"""The commands of Echelon: what a person types; the work is done by the ``echelon`` package."""
