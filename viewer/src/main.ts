// Entry point of the viewer: its styles, the application, and a handle for tests and the browser console.

import "uplot/dist/uPlot.min.css";
import "./style/fonts.css";
import "./style/base.css";
import "./style/list.css";
import "./style/league.css";
import "./style/match.css";
import "./style/roster.css";
import "./style/player.css";
import "./style/narrow.css";
import "./style/win.css";
import "./style/insight.css";
import "./style/guide.css";
import "./style/phone.css";
import "./style/landscape.css";
import "./style/play.css";
import "./style/branches.css";
import "./style/end.css";
import { App } from "./app";
import { learnLayout } from "./keys";

void learnLayout();
const app = new App(document.getElementById("app") ?? document.body);
Object.assign(window, { echelon: app.handle });
document.getElementById("skeleton")?.remove();
app.start();
