"""A yes/no dialog."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from echelon_cli.tui.format import wrap
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import CellView, Grid, draw_frame
from echelon_cli.tui.widgets.compositor import use_span_updates

WIDTH = 56
ANSWERS = (("y", " yes"), ("n", " no"))


class Question(CellView):
    """The dialog box: question and keys."""

    def __init__(self, text: str, *, theme: Theme) -> None:
        super().__init__(theme=theme)
        self.lines = wrap(text, WIDTH - 6)
        self.styles.width, self.styles.height = WIDTH, len(self.lines) + 5

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        draw_frame(grid, self.theme, "Confirm", focused=True)
        for y, line in enumerate(self.lines, start=2):
            grid.put(3, y, line)
        x = 3
        for key, label in ANSWERS:
            x = grid.spans(x, height - 2, [(key, "key"), (label, "")]) + 3
        return grid


class ConfirmScreen(ModalScreen[bool]):
    """Asks a question and returns whether the answer is yes."""

    BINDINGS = [
        Binding("y,enter", "answer(True)", "yes", show=False),
        Binding("n,escape,q", "answer(False)", "no", show=False),
    ]

    def __init__(self, text: str, theme: Theme) -> None:
        super().__init__()
        use_span_updates(self)
        self._question = Question(text, theme=theme)

    def compose(self) -> ComposeResult:
        yield self._question

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
