"""Worlds as pictures and statistics, for ``echelon world``.

``scene`` collects what is shown of a generated map or of a replay; ``views`` compute a colour and a letter per column,
``render`` scales a view to text, pixels or PNG with the colours of ``palette``; ``statistics`` measures a scene.
"""
