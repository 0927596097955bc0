// Package engine executes a plan of an installation, and resumes, verifies and undoes it.
//
// It may be killed at any time. Before a step, its checks decide: a step that is satisfied is
// skipped, one that is absent runs, and anything else in its place stops the installation.
// A journal away from the target says which steps began and ended, and is bound to the hash
// of the plan, the serial number of the disk, and the identities of partition table and pool.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/prepare/install/installed"
	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/probe"
	"bakeoff/reach/conn"
)

const (
	releaseTime = 2 * time.Minute // for all that a failed installation took
	awaitTime   = time.Minute     // for device nodes
	awaitEvery  = 250 * time.Millisecond
	sayEvery    = 10 * time.Second // progress of long steps
	outputTail  = 4 << 10          // bytes of a command's output that are kept
)

// Engine executes the plan of a record.
type Engine struct {
	*Record
	Conn    conn.Conn
	Secrets *Secrets
	Say     func(line string) // progress, for a person

	opened []*plan.Step // those with a flush that are not released
}

// Run executes the steps that are not done, in order. When a step fails, or ctx ends, it
// releases in reverse order what the steps took.
func (e *Engine) Run(ctx context.Context) error {
	if e.Ended {
		return fault.WithFix(fault.New(fault.Invalid, "the installation has ended"),
			"run bakeoff install verify "+e.Dir)
	}
	if err := e.prepare(ctx); err != nil {
		return err
	}
	for i := range e.Plan.Steps {
		s := &e.Plan.Steps[i]
		e.Say(fmt.Sprintf("%d/%d %s: %s", i+1, len(e.Plan.Steps), s.ID, s.Purpose))
		err := e.step(ctx, s)
		if err == nil {
			err = e.bind(ctx, s)
		}
		if err != nil {
			return e.fail(s, err)
		}
		if s.Flush != nil {
			e.opened = append(e.opened, s)
		}
		e.opened = slices.DeleteFunc(e.opened, func(o *plan.Step) bool { return o.ID == s.Releases })
	}
	return e.append(Line{Event: eventEnd})
}

// prepare makes sure of everything that can be known before a step runs.
func (e *Engine) prepare(ctx context.Context) error {
	if err := e.sameDisks(ctx); err != nil {
		return err
	}
	if err := e.havePrograms(ctx); err != nil {
		return err
	}
	if err := e.ownFiles(ctx); err != nil {
		return err
	}
	for name, ref := range e.Plan.Secrets {
		if _, err := e.Secrets.get(name, ref); err != nil {
			return err
		}
	}
	return nil
}

// havePrograms refuses a machine that lacks a program that a step starts on it.
func (e *Engine) havePrograms(ctx context.Context) error {
	argv := []string{"which"}
	for _, s := range e.Plan.Steps {
		all := [][]string{s.Argv, s.Undo, s.Again, s.Flush}
		for _, p := range s.Programs {
			all = append(all, []string{p})
		}
		for _, c := range s.Checks {
			all = append(all, c.Argv)
		}
		for _, a := range all {
			if a = program(a); len(a) > 0 && !slices.Contains(argv[1:], a[0]) {
				argv = append(argv, a[0])
			}
		}
	}
	var out bytes.Buffer // which fails if one is missing, and prints the others
	cmd := conn.Command(argv...)
	cmd.Stdout = &limited{&out}
	if _, err := e.Conn.Exec(ctx, cmd); err != nil {
		return err
	}
	have := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		have[path.Base(strings.TrimSpace(line))] = true
	}
	var missing []string
	for _, name := range argv[1:] {
		if !have[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "the target has no %s", strings.Join(missing, ", ")),
			"start a rescue system that has them")
	}
	return nil
}

// program is a command without env and its variables, and without unshare and its flags.
func program(argv []string) []string {
	for len(argv) > 0 && (argv[0] == "env" || argv[0] == "unshare" || strings.HasPrefix(argv[0], "-") ||
		strings.Contains(argv[0], "=")) {
		argv = argv[1:]
	}
	return argv
}

// sameDisks refuses other disks than the plan's, and those whose partition table was
// replaced.
func (e *Engine) sameDisks(ctx context.Context) error {
	for _, d := range e.Plan.Drives() {
		if err := e.sameDisk(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) sameDisk(ctx context.Context, planned plan.Drive) error {
	d, ok, err := probe.Disk(ctx, e.Conn, planned.ByID)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.New(fault.Invalid, "the disk %s is missing", planned.ByID)
	case d.Serial != planned.Serial || d.Size != planned.Size:
		return fault.WithFix(
			fault.New(fault.Invalid, "%s is not the planned disk: it has the serial number %s and %d bytes instead "+
				"of %s and %d bytes",
				planned.ByID, safetext.Line(d.Serial), d.Size, planned.Serial, planned.Size),
			"attach the disk of the plan, or make another plan",
		)
	}
	if len(e.states) == 0 {
		return unchanged(planned.Disk, d)
	}
	if want := e.tables[planned.Partition()]; want != "" {
		got, err := probe.Table(ctx, e.Conn, planned.ByID)
		if err != nil {
			return err
		}
		if got != want {
			return fault.WithFix(
				fault.New(fault.Invalid, "the disk %s has another partition table (%s) than the installation wrote (%s)",
					planned.ByID, safetext.Line(got), want),
				"make another plan",
			)
		}
	}
	return nil
}

// unchanged refuses a disk that got other content or a user since the plan was made.
func unchanged(planned plan.Disk, d installed.Disk) error {
	if d.Users == nil || d.Signatures == nil {
		return fault.New(fault.Unsupported, "bakeoff cannot find out what is on the disk %s, and what uses the "+
			"disk", planned.ByID)
	}
	if len(d.Users) > 0 {
		return fault.WithFix(fault.New(fault.Invalid, "%s is in use: %s", planned.ByID, safetext.Line(d.Users[0])),
			"end this use first, for example unmount it")
	}
	if !slices.Equal(d.Signatures, planned.Signatures) && len(d.Signatures)+len(planned.Signatures) > 0 {
		return fault.WithFix(fault.New(fault.Invalid, "%s changed since the plan was made: the disk contains %q "+
			"instead of %q",
			planned.ByID, d.Signatures, planned.Signatures), "make another plan")
	}
	return nil
}

// bind records what identifies the target after a step made it.
func (e *Engine) bind(ctx context.Context, s *plan.Step) error {
	for _, d := range e.Plan.Drives() {
		if s.ID == d.Partition() && e.tables[s.ID] == "" {
			// The plan assigns it, but to the tables of NetBSD, whose gpt draws one.
			got, err := probe.Table(ctx, e.Conn, d.ByID)
			if err != nil {
				return err
			}
			return e.append(Line{Event: eventBind, Step: s.ID, GPT: got})
		}
	}
	if s.ID == "pool-import" {
		out, err := e.output(ctx, "zpool", "get", "-H", "-o", "value", "guid", e.Plan.Pool)
		guid := strings.TrimSpace(out)
		switch {
		case err != nil:
			return err
		case e.PoolGUID == "":
			return e.append(Line{Event: eventBind, PoolGUID: guid})
		case guid != e.PoolGUID:
			return fault.New(fault.Invalid, "the pool %s has GUID %s, not %s: it is a different pool", e.Plan.Pool,
				safetext.Line(guid), e.PoolGUID)
		}
	}
	return nil
}

// step runs a step, if it is not done.
func (e *Engine) step(ctx context.Context, s *plan.Step) error {
	if s.Releases != "" {
		return e.release(ctx, e.Plan.Step(s.Releases))
	}
	state := e.states[s.ID]
	if state == eventDone && (s.Once || len(s.Checks) == 0) || s.Until != "" && e.states[s.Until] == eventDone {
		return nil
	}
	interrupted := state == eventStart
	if len(s.Checks) > 0 {
		seen, err := e.look(ctx, s)
		switch {
		case err != nil:
			return err
		case interrupted && s.Redo:
		case seen.state == satisfied:
			if state != eventDone {
				return e.done(ctx, s, "was satisfied")
			}
			return nil
		case seen.state == conflicting && slices.Equal(s.Argv, s.Checks[0].Argv): // the step only looks
			return fault.New(fault.Invalid, "%s: this check failed: %s", s.Purpose, seen.says)
		case seen.state == conflicting:
			return fault.WithFix(fault.New(fault.Invalid, "%s: the target already has something else where this "+
				"step would write: %s", s.ID, seen.says),
				"find out what it is. If you do not need it, remove it and run resume")
		case state == eventDone && s.Destroys != "":
			return fault.WithFix(fault.New(fault.Invalid, "the step %s was done, but its result has disappeared: "+
				"%s", s.ID, seen.says),
				"find out what changed the disk. resume does not destroy data a second time; to install again from the start, "+
					"make another plan")
		}
	}
	if err := e.haveRoom(ctx, s.Room); err != nil {
		return err
	}
	if err := e.append(Line{Event: eventStart, Step: s.ID}); err != nil {
		return err
	}
	if interrupted && s.Again != nil {
		again := plan.Step{ID: "again " + s.ID}
		if err := e.execute(ctx, &again, s.Again); err != nil {
			return err
		}
	}
	if err := e.execute(ctx, s, s.Argv); err != nil {
		return err
	}
	if err := e.settled(ctx, s); err != nil {
		return err
	}
	return e.done(ctx, s, "")
}

// done notes a step as done after what it wrote is on the disk: a power cut takes away the rest, and many checks
// would not see that.
func (e *Engine) done(ctx context.Context, s *plan.Step, note string) error {
	for i, o := range e.opened {
		same := func(b *plan.Step) bool { return slices.Equal(b.Flush, o.Flush) }
		if s.Departs || slices.ContainsFunc(e.opened[:i], same) {
			continue
		}
		flush := plan.Step{ID: "flush " + o.ID}
		if err := e.execute(ctx, &flush, o.Flush); err != nil {
			return err
		}
	}
	return e.append(Line{Event: eventDone, Step: s.ID, Note: note})
}

// haveRoom refuses a file system that has too little free space.
func (e *Engine) haveRoom(ctx context.Context, r *plan.Room) error {
	if r == nil {
		return nil
	}
	out, err := e.output(ctx, "stat", "-f", "-c", "%a %S", r.Dir)
	if err != nil {
		return err
	}
	var blocks, size int64
	if _, err := fmt.Sscan(out, &blocks, &size); err != nil {
		return fault.New(fault.Lab, "stat printed %s", safetext.Line(out))
	}
	need, err := e.sizes(ctx, r.Sizes)
	if err != nil {
		return err
	}
	need += r.Bytes
	if free := blocks * size; free < need {
		return fault.WithFix(fault.New(fault.Unsupported, "%s has %s of free space, and the packages need %s", r.Dir,
			unit.Bytes(free>>20<<20), unit.Bytes((need+1<<20-1)>>20<<20)),
			"give the rescue system more memory or mount another disk there, "+
				"or make a plan with another download_dir, or with download_dir: none")
	}
	return nil
}

// sizes is the space for the files whose sizes are at the ends of the lines that a command prints, and
// for a signature of each file. A file fills whole blocks.
func (e *Engine) sizes(ctx context.Context, argv []string) (sum int64, err error) {
	const block = 4 << 10
	if argv == nil {
		return 0, nil
	}
	out, err := e.output(ctx, argv...)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		n, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
		if err != nil || n < 0 {
			return 0, fault.New(fault.Lab, "the output of %s has a line that does not end with a size: %s", shell.Quote(argv...),
				safetext.Line(line))
		}
		sum += (n+block-1)/block*block + block
	}
	if sum == 0 {
		return 0, fault.New(fault.Lab, "%s printed no sizes", shell.Quote(argv...))
	}
	return sum, nil
}

// settled waits until a step that was run shows in its checks. Until then a step that is awaited runs again
// and again: partx leaves out a partition, without an error, while an old one that it overlaps is being read.
func (e *Engine) settled(ctx context.Context, s *plan.Step) error {
	if len(s.Checks) == 0 {
		return nil
	}
	want, tries := 1, 1
	if s.Await {
		want, tries = 2, int(awaitTime/awaitEvery)
	}
	got := 0
	var seen sight
	var failed error // the last time that it ran again
	for range tries {
		var err error
		if seen, err = e.look(ctx, s); err != nil {
			return err
		}
		if got++; seen.state != satisfied {
			got = 0
		}
		if got == want {
			return nil
		}
		if s.Await {
			if err := sleep.For(ctx, awaitEvery); err != nil {
				return err
			}
			if seen.state != satisfied {
				failed = e.execute(ctx, s, s.Argv)
			}
		}
	}
	return errors.Join(fault.New(fault.Lab, "the step %s ran, but its check fails: %s", s.ID, seen.says), failed)
}

// fail records an error, and releases what the steps took.
func (e *Engine) fail(s *plan.Step, err error) error {
	text := e.Secrets.scrub(err.Error())
	_ = e.append(Line{Event: eventFail, Step: s.ID, Note: text})
	e.Say(s.ID + " failed; unmounting, closing and exporting what earlier steps opened")
	ctx, stop := context.WithTimeout(context.Background(), releaseTime)
	defer stop()
	left := e.Release(ctx)
	return fault.WithFix(errors.Join(fault.Wrap(fault.Of(err), s.ID, errors.New(text)), left),
		"fix this, then run bakeoff install resume "+e.Dir)
}

// execute runs a command with the input of a step, and keeps the end of its output in the log.
func (e *Engine) execute(ctx context.Context, s *plan.Step, argv []string) error {
	in, err := e.input(s.Stdin)
	if err != nil {
		return err
	}
	out := &tail{}
	cmd := conn.Command(argv...)
	cmd.Dir = s.Dir
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = []string{"LC_ALL=C"}, in, out, out
	done := make(chan struct{})
	go e.progress(s.ID, out, done)
	exit, err := e.Conn.Exec(ctx, cmd)
	close(done)
	said := e.Secrets.scrub(safetext.Text(out.String()))
	e.log(s.ID, argv, exit, said)
	switch {
	case s.Departs && fault.Is(err, fault.Lab) && ctx.Err() == nil:
		e.Say(s.ID + ": the connection ended, as expected")
		return nil
	case err != nil:
		return err
	case !exit.OK():
		return fault.New(fault.Lab, "%s: %s: %s", argv[0], exit, cause(said))
	}
	return nil
}

// progress says from time to time what a long step prints.
func (e *Engine) progress(id string, out *tail, done chan struct{}) {
	began := time.Now()
	every := time.NewTicker(sayEvery)
	defer every.Stop()
	for {
		select {
		case <-done:
			return
		case <-every.C:
			e.Say(fmt.Sprintf("%s runs for %s: %s", id, time.Since(began).Round(time.Second),
				lastLine(e.Secrets.scrub(safetext.Text(out.String())))))
		}
	}
}

func (e *Engine) output(ctx context.Context, argv ...string) (string, error) {
	out, err := conn.Output(ctx, e.Conn, argv...)
	return string(out), err
}

// cause is the line that says why a command failed: the first error of apt and mmdebstrap, which
// print others after it, or the last line. apt says before it how much it wanted to download, and
// why it believes no signature; dpkg says with two lines which package it did not install.
func cause(said string) string {
	before, broken := "", ""
	lines := strings.Split(said, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "dpkg: error processing ") && broken == "":
			broken = line + " " + strings.TrimSpace(lines[min(i+1, len(lines)-1)])
		case strings.HasPrefix(line, "Need to get "), strings.HasPrefix(line, "W: GPG error: "):
			before = line
		case !strings.HasPrefix(line, "E: "):
		case broken != "" && strings.Contains(line, "returned an error code"):
			return broken
		case before != "" && (strings.Contains(line, "enough free space") || strings.Contains(line, "is not signed")):
			return before + " " + line
		default:
			return line
		}
	}
	return lastLine(said)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
