package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/sleep"
	"bakeoff/prepare/install/plan"
	"bakeoff/reach/conn"
)

// outcome is what a check found.
type outcome int

const (
	satisfied outcome = iota
	absent
	conflicting
)

// sight is an outcome and the check that decided.
type sight struct {
	state outcome
	says  string
}

// look runs the checks of a step. The worst outcome decides. Checks in a row that have the same
// command run it once.
func (e *Engine) look(ctx context.Context, s *plan.Step) (sight, error) {
	worst := sight{}
	var got printed
	for i, c := range s.Checks {
		if i == 0 || c.Stdin != nil || s.Checks[i-1].Stdin != nil || c.Dir != s.Checks[i-1].Dir ||
			!slices.Equal(c.Argv, s.Checks[i-1].Argv) {
			var err error
			if got, err = e.run(ctx, c); err != nil {
				return sight{}, err
			}
		}
		if seen := got.judge(c); seen.state > worst.state {
			worst = seen
		}
	}
	return worst, nil
}

// printed is what the command of a check printed, and whether it succeeded.
type printed struct {
	ok        bool
	out, errs string
}

func (e *Engine) run(ctx context.Context, c plan.Check) (printed, error) {
	in, err := e.input(c.Stdin)
	if err != nil {
		return printed{}, err
	}
	var out, said bytes.Buffer
	cmd := conn.Command(c.Argv...)
	cmd.Dir = c.Dir
	cmd.Env, cmd.Stdin = []string{"LC_ALL=C"}, in
	cmd.Stdout, cmd.Stderr = &limited{&out}, &limited{&said}
	exit, err := e.Conn.Exec(ctx, cmd)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return printed{}, err
	}
	return printed{err == nil && exit.OK(), e.Secrets.scrub(safetext.Text(out.String())),
		e.Secrets.scrub(safetext.Text(said.String()))}, nil
}

func (p printed) judge(c plan.Check) sight {
	s := sight{state: judge(c, p.ok, p.out)}
	switch {
	case !p.ok:
		s.says = shell.Quote(c.Argv...) + " failed: " + lastLine(p.errs)
	case c.Empty: // each line is a finding
		s.says = shell.Quote(c.Argv...) + " printed " + strings.Join(strings.Split(strings.TrimSpace(p.out), "\n"), "; ")
	case s.state != satisfied && len(c.Expect) > 0 && strings.Count(p.out, "\n") > 1:
		s.says = fmt.Sprintf("%s printed no line with %s", shell.Quote(c.Argv...), strings.Join(c.Expect, " and "))
	default:
		s.says = shell.Quote(c.Argv...) + " printed " + lastLine(p.out)
	}
	return s
}

// judge decides what a check found from its command's output.
func judge(c plan.Check, ok bool, out string) outcome {
	other := conflicting
	if c.Replaces {
		other = absent
	}
	empty := strings.TrimSpace(out) == ""
	switch {
	case !ok:
		return absent
	case c.Empty && empty, !c.Empty && len(c.Expect) == 0:
		return satisfied
	case c.Empty:
		return other
	case empty:
		return absent
	}
	for line := range strings.Lines(out) {
		if !slices.ContainsFunc(c.Expect, func(e string) bool { return !containsWord(line, e) }) {
			return satisfied
		}
	}
	return other
}

// containsWord reports whether a line contains a text that is not part of a longer word:
// unavailable does not contain available.
func containsWord(line, text string) bool {
	letter := func(b byte) bool { return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80 }
	for at := 0; text != ""; {
		i := strings.Index(line[at:], text)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(text)
		if (begin == 0 || !letter(text[0]) || !letter(line[begin-1])) &&
			(end == len(line) || !letter(text[len(text)-1]) || !letter(line[end])) {
			return true
		}
		at = begin + 1
	}
	return false
}

// Release runs the undo of every step that took something, in reverse order. An error does
// not keep it from the steps that remain.
func (e *Engine) Release(ctx context.Context) error {
	var all []error
	for i := range slices.Backward(e.Plan.Steps) {
		if s := &e.Plan.Steps[i]; s.Undo != nil && e.states[s.ID] != "" {
			all = append(all, e.release(ctx, s))
		}
	}
	return errors.Join(all...)
}

// release runs the undo of a step, and sees that it took effect. What is busy for a moment
// is tried again.
func (e *Engine) release(ctx context.Context, s *plan.Step) error {
	const tries = 3
	for n := 1; ; n++ {
		seen, err := e.look(ctx, s)
		if err != nil || seen.state != satisfied {
			return err
		}
		if n > tries {
			return fault.New(fault.Lab, "%s still holds: %s", s.ID, seen.says)
		}
		undo := plan.Step{ID: "undo " + s.ID}
		if err := e.execute(ctx, &undo, s.Undo); err != nil && n == tries {
			return err
		}
		if n > 1 {
			if err := sleep.For(ctx, time.Second); err != nil {
				return err
			}
		}
		if err := e.append(Line{Event: eventRelease, Step: s.ID}); err != nil {
			return err
		}
	}
}

// Drift is a difference between a system and its plan.
type Drift struct {
	Step string `json:"step"`
	Says string `json:"says"`
}

// Verify compares a system with its plan. It imports the pool and mounts everything
// read-only, and releases it in the end. unchecked are the steps that no check covers.
func (e *Engine) Verify(ctx context.Context) (drifts []Drift, unchecked []string, err error) {
	if err := e.sameDisks(ctx); err != nil {
		return nil, nil, err
	}
	var opened []*plan.Step
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer stop()
		for _, s := range slices.Backward(opened) {
			err = errors.Join(err, e.release(ctx, s))
		}
	}()
	for i := range e.Plan.Steps {
		s := &e.Plan.Steps[i]
		switch {
		case s.Once, s.Releases != "", s.Local && !s.Reopen, strings.HasPrefix(s.ID, "exported"):
			continue
		case len(s.Checks) == 0:
			unchecked = append(unchecked, s.ID)
			continue
		}
		seen, err := e.look(ctx, s)
		if err == nil && seen.state == absent && (s.Undo != nil || s.Reopen) {
			argv := s.Argv
			if s.ReadOnly != nil {
				argv = s.ReadOnly
			}
			if err = e.execute(ctx, s, argv); err == nil {
				seen, err = e.look(ctx, s)
			}
			if s.Undo != nil {
				opened = append(opened, s)
			}
		}
		if err != nil {
			return drifts, unchecked, fault.Op(s.ID, err)
		}
		if seen.state != satisfied && !s.Local {
			drifts = append(drifts, Drift{s.ID, seen.says})
		}
	}
	return drifts, unchecked, nil
}

// input opens what a command reads.
func (e *Engine) input(in *plan.Input) (io.Reader, error) {
	switch {
	case in == nil:
		return nil, nil
	case in.Secret == "":
		return strings.NewReader(in.Text), nil
	}
	value, err := e.Secrets.get(in.Secret, e.Plan.Secrets[in.Secret])
	return bytes.NewReader(value), err
}

// limited keeps the first MiB: the list of the files of an initramfs has 125 KiB.
type limited struct{ *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, 1<<20-l.Len()))])
	return len(p), nil
}

// tail keeps the end of an output, and may be read while it is written.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-outputTail):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
