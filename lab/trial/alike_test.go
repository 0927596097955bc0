package trial

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
)

// A parser that cannot read the output of any trial ends the run after as many blocks as
// a contender has trials that only fails, and not at the end of the spare ones.
func TestUnreadableOutputEndsTheRun(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.dice.unread = func(string, int64) bool { return true }
	out, lines := b.run(t.Context())
	if out.Ended != analysis.EndedVoid || out.Results.Void > 2*maxAlike || out.Results.Blocks != 0 {
		t.Errorf("ended %q after %d void and %d counting blocks", out.Ended, out.Results.Void, out.Results.Blocks)
	}
	// The text of the last block is named, although it differs from block to block.
	if !strings.HasPrefix(out.Cause, "4 blocks in a row were void for the same cause: one on ") ||
		!strings.Contains(out.Cause, "parsing \"trial") {
		t.Errorf("the cause is %q", out.Cause)
	}
	if n := count(lines, func(l store.Line) bool { return l.Type == store.LineBlock }); n != out.Results.Void {
		t.Errorf("%d lines of blocks, and %d void", n, out.Results.Void)
	}
}

// A contender whose output alone cannot be read leaves the run, which goes on.
func TestUnreadableContenderLeaves(t *testing.T) {
	b := newBench(t, "  - {name: odd, driver: shelf}\n  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.dice.unread = func(contender string, _ int64) bool { return contender == "odd" }
	out, _ := b.run(t.Context())
	if out.Ended != analysis.EndedBlocks || out.Results.Blocks != 8 || out.Results.Void != maxAlike || out.Cause != "" {
		t.Errorf("ended %q after %d counting and %d void blocks: %q", out.Ended, out.Results.Blocks, out.Results.Void,
			out.Cause)
	}
	if m := out.Results.Missing; len(m) != 1 || m[0].Contender != "odd" ||
		!strings.Contains(m[0].Reason, "the same cause") {
		t.Errorf("missing: %+v", m)
	}
}

// What passes is no reason to end: some blocks that cannot be read, with others between.
func TestSomeUnreadableOutput(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.dice.unread = func(_ string, n int64) bool { return n == 1 || n == 2 || n == 3 || n == 20 || n == 21 }
	out, _ := b.run(t.Context())
	if out.Results.Blocks != 8 || out.Results.Void != 5 || out.Cause != "" {
		t.Errorf("%d counting and %d void blocks: %q", out.Results.Blocks, out.Results.Void, out.Cause)
	}
}

// A fault of the laboratory may pass with time: it ends the run only if it has stayed for
// longer than maxAlikeTime.
func TestLastingFaultEndsTheRun(t *testing.T) {
	for _, step := range []time.Duration{time.Second, time.Nanosecond} { // of the clock at each reading
		b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
		b.dice.run = func(_ execution.Target, n int64) error {
			if n <= 6 || step == time.Second {
				return fault.New(fault.Lab, "connection %d was lost", n)
			}
			return nil
		}
		o, done := b.options(t.Context())
		now := time.Now()
		o.Now = func() time.Time { now = now.Add(step); return now }
		out, err := Run(t.Context(), o)
		done()
		if err != nil {
			t.Fatal(err)
		}
		if step == time.Second && (out.Results.Void <= maxAlike || out.Cause == "") ||
			step != time.Second && (out.Results.Void != 6 || out.Results.Blocks != 8) {
			t.Errorf("step %s: ended %q after %d void and %d counting blocks: %q", step, out.Ended, out.Results.Void,
				out.Results.Blocks, out.Cause)
		}
	}
}

func TestAlike(t *testing.T) {
	var a alike
	now := time.Now()
	read := func(contender, text string) error {
		return errors.Join(voided{"one", contender, fault.Op("answer", unread{errors.New(text)})}, nil)
	}
	for i, step := range []struct {
		err       error
		contender string
		often     bool
	}{
		{read("a", "line 7 is not a number"), "a", false},
		{read("a", "line 9 is not a number"), "a", false},
		{read("a", "line 9 is empty"), "a", false}, // another cause
		{read("a", "line 1 is empty"), "a", false},
		{read("b", "line 2 is empty"), "", false},
		{read("a", "line 3 is empty"), "", true},
		{errors.New("the disk is full"), "", false},
		{errors.New("the disk is full"), "", false},
		{errors.New("the disk is full"), "", false},
		{errors.New("the disk is full"), "", false}, // too early
	} {
		if often := a.count(step.err, now); often != step.often || a.contender != step.contender {
			t.Errorf("block %d: often %v, contender %q", i, often, a.contender)
		}
	}
	if !a.count(errors.New("the disk is full"), now.Add(maxAlikeTime)) {
		t.Error("a cause that lasts does not end the run")
	}
}
