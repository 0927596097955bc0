package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/lab/trial"
)

// live is the view on a terminal: remarks scroll, and below them a few lines are
// redrawn in place.
//
// It draws between trials, and once a second while environments and images are
// created, but never during a trial: drawing uses a CPU and wakes a terminal,
// which would disturb the measurement.
type live struct {
	mu       sync.Mutex
	out      io.Writer
	style    cli.Style
	size     func() (columns, rows int)
	now      func() time.Time
	state    liveState
	drawn    int // lines on the screen that are ours
	columns  int // when they were drawn
	last     time.Time
	reported reported
	stop     chan struct{}
	done     chan struct{}
}

// liveState is what a frame shows.
type liveState struct {
	title   string
	event   trial.Event // the last one
	at      time.Time   // when it came
	busy    bool        // inside a trial
	results *analysis.Results
	blocks  int           // that have ended in this process
	took    time.Duration // all of them together
	ended   time.Duration // Elapsed when the last one did
}

// redraw is the shortest time between two frames.
const redraw = 250 * time.Millisecond

func newLive(out io.Writer, s cli.Style, size func() (int, int), state liveState) *live {
	l := &live{out: out, style: s, size: size, now: time.Now, state: state, stop: make(chan struct{}),
		done: make(chan struct{})}
	io.WriteString(out, "\x1b[?25l") // hide the cursor
	go l.redrawClock()
	return l
}

// redrawClock redraws the clock while something slow is created.
func (l *live) redrawClock() {
	defer close(l.done)
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			l.mu.Lock()
			if !l.state.busy && l.state.event.Kind != "" {
				l.drawFrame()
			}
			l.mu.Unlock()
		}
	}
}

func (l *live) showEvent(e trial.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Results != nil {
		l.state.results = e.Results
	}
	l.state.event, l.state.at = e, l.now()
	if e.Kind == trial.BlockEnd && e.Took > 0 {
		l.state.blocks, l.state.took, l.state.ended = l.state.blocks+1, l.state.took+e.Took, e.Elapsed
	}
	// A trial that is about to start is drawn before it does.
	l.state.busy = e.Kind == trial.TrialStart
	line, c := l.reported.remarkOnce(e)
	if line != "" {
		l.eraseLines()
		columns, _ := l.size()
		for _, part := range cli.Wrap(safetext.Clip(safetext.Line(line), 4*columns), columns) {
			fmt.Fprintln(l.out, l.style.Paint(c, part))
		}
	}
	if line != "" || e.Kind == trial.BlockEnd || l.now().Sub(l.last) >= redraw {
		l.drawFrame()
	}
}

// closeView leaves the last frame on the screen.
func (l *live) closeView() {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drawFrame()
	io.WriteString(l.out, "\x1b[?25h") // show the cursor
}

// eraseLines removes our lines from the screen and leaves the cursor at their start.
func (l *live) eraseLines() {
	if l.drawn > 0 {
		fmt.Fprintf(l.out, "\x1b[%dA\r\x1b[J", l.drawn)
		l.drawn = 0
	}
}

// drawFrame writes the current frame in one write.
func (l *live) drawFrame() {
	columns, rows := l.size()
	var b strings.Builder
	if l.columns != 0 && columns != l.columns {
		b.WriteString("\x1b[H\x1b[2J") // the terminal wrapped the lines again: their number is unknown
		l.drawn = 0
	}
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", l.drawn)
	}
	lines := frameLines(l.state, l.now(), columns, rows-1, l.style)
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	io.WriteString(l.out, b.String())
	l.drawn, l.columns, l.last = len(lines), columns, l.now()
}

// timeLeft says how long the run can still take: the blocks that are left at the
// measured rate, or what is left of the budget if that is less. A verdict may end the
// run earlier.
func (s liveState) timeLeft(elapsed time.Duration) string {
	left := s.event.Budget - elapsed
	if s.event.Budget <= 0 || left <= 0 {
		return ""
	}
	text := ", at most " + left.Round(time.Second).String() + " left"
	if s.blocks == 0 {
		return text
	}
	rest := s.took/time.Duration(s.blocks)*time.Duration(s.event.Planned-s.event.Done) - (elapsed - s.ended)
	if rest >= left {
		return text
	}
	return ", about " + max(rest, time.Second).Round(time.Second).String() + " left"
}

// frameLines is the view in lines of at most columns cells, at most rows of them.
// It is pure.
func frameLines(s liveState, now time.Time, columns, rows int, st cli.Style) []string {
	e := s.event
	elapsed := e.Elapsed
	if !s.busy && !s.at.IsZero() && e.Kind != trial.End {
		elapsed += now.Sub(s.at)
	}
	bar := max(min(columns-56, 24), 6)
	done := fmt.Sprintf("blocks %s %d", progressBar(e.Done, e.Planned, bar), e.Done)
	if e.Planned > 0 { // 0: the run is not planned yet
		done += fmt.Sprintf(" of at most %d", e.Planned)
	}
	if e.Void > 0 {
		done += fmt.Sprintf(", %d void", e.Void)
	}
	spent := "time   " + progressBar(int(elapsed/time.Millisecond), int(e.Budget/time.Millisecond), bar) + " " +
		timeText(elapsed, e.Budget)
	spent += s.timeLeft(elapsed)
	if e.Budget == 0 {
		spent = "time   " + timeText(elapsed, 0)
	}
	lines := []string{
		st.Paint(cli.Bold, safetext.Clip(s.title, columns)),
		safetext.Clip(done, columns),
		safetext.Clip(spent, columns),
		safetext.Clip("now    "+safetext.Line(nowText(e)), columns),
	}
	if s.results != nil {
		lines = append(lines, comparisonLines(*s.results, columns, rows-len(lines), st)...)
	}
	return lines[:min(len(lines), max(rows, 1))]
}

// nowText is the current step.
func nowText(e trial.Event) string {
	switch e.Kind {
	case trial.TrialStart, trial.TrialEnd:
		return fmt.Sprintf("block %d, trial %d: %s in %s", e.Block+1, e.Position+1, e.Cell, e.Contender)
	case trial.Environment:
		return fmt.Sprintf("block %d: creating environments (%s)", e.Block+1, e.Contender)
	case trial.BlockEnd:
		if e.Status == store.Void {
			return voidText(e)
		}
		return fmt.Sprintf("block %d is done", e.Block+1)
	case trial.End:
		return "ended: " + analysis.EndedText(e.Text)
	}
	return e.Text
}

// progressBar draws done of all in width cells.
func progressBar(done, all, width int) string {
	n := 0
	if all > 0 {
		n = min(width, done*width/all)
	}
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}

// comparisonLines shows the primary comparisons, inconclusive ones first where
// there is no room for all.
func comparisonLines(r analysis.Results, columns, rows int, st cli.Style) []string {
	var inconclusive, decided []analysis.Comparison
	for _, c := range r.Comparisons {
		switch {
		case !c.Primary:
		case offline.IsDecided(c):
			decided = append(decided, c)
		default:
			inconclusive = append(inconclusive, c)
		}
	}
	all := append(inconclusive, decided...)
	if len(all) == 0 || rows < 3 {
		return nil
	}
	room := rows - 2
	shown := all[:min(len(all), room)]
	l := offline.LayoutFor(r, shown, columns)
	lines := []string{"", st.Paint(cli.Dim, safetext.Clip(l.Head(r.Baseline), columns))}
	for _, c := range shown {
		lines = append(lines, l.Line(c, r.Margin, st))
	}
	if hidden := len(all) - len(shown); hidden > 0 {
		lines[len(lines)-1] = fmt.Sprintf("… and %d more", hidden+1)
	}
	return lines
}
