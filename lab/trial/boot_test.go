package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/probe"
	"bakeoff/reach/system"
)

// rack is a machine that follows a script: what is switched to comes up,
// unless up says otherwise. Its files are this machine's, in folders of each
// system.
type rack struct {
	env.Here
	dir string
	// up is asked what comes up after n boots when next was asked for.
	up func(n int, next string) (system, uuid string)

	mu           sync.Mutex
	next, system string
	uuid         string
	boots, looks int // so far; and how often it is asked in vain after a boot
	down         int // looks left until it answers
	said         []string
	boot         string // instead of the one that counts boots; or ""
}

func newRack(t testing.TB) *rack {
	return &rack{Here: env.Here{Conn: nowhere{}}, dir: t.TempDir(), system: "one", uuid: "u1", looks: 2,
		up: func(_ int, next string) (string, string) { return next, "u1" }}
}

func (r *rack) Machine() channel.Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return channel.Machine{GOOS: "linux", GOARCH: "amd64", Boot: cmp.Or(r.boot, fmt.Sprint("boot ", r.boots)),
		Hardware: facts.Hardware{UUID: r.uuid}}
}

func (*rack) Clock(context.Context) (channel.Clock, error) { return channel.Clock{SystemNS: 1}, nil }

// Alive fails after a boot until the machine was reached again.
func (r *rack) Alive(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down > 0 {
		return fault.New(fault.Lab, "nobody answers")
	}
	return nil
}

// Reconnect is one look at the machine.
func (r *rack) Reconnect(ctx context.Context) error {
	_, err := r.ReadDir(ctx, "/")
	return err
}
func (r *rack) Agent() string    { return "/agent-" + r.at() }
func (r *rack) StateDir() string { return filepath.Join(r.dir, r.at(), "state") }
func (r *rack) CacheDir() string { return filepath.Join(r.dir, r.at(), "cache") }

func (r *rack) HostLock() string { return filepath.Join(r.dir, "lock") }

func (r *rack) at() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.system
}

func (r *rack) Session() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boots
}

func (r *rack) Settle(context.Context, []int) error { return nil }

func (r *rack) ReadDir(ctx context.Context, path string) ([]string, error) {
	r.mu.Lock()
	down := r.down
	r.down = max(0, down-1)
	r.mu.Unlock()
	if down > 0 {
		return nil, fault.New(fault.Lab, "nobody answers")
	}
	return r.Here.ReadDir(ctx, path)
}

func (r *rack) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case cmd.Argv[0] == "next":
		r.next = cmd.Argv[1]
	case cmd.Argv[0] == "reboot":
		r.boots++
		r.down = r.looks
		r.system, r.uuid = r.up(r.boots, r.next)
		r.said = append(r.said, r.next)
		return conn.Exit{}, fault.New(fault.Lab, "the connection is lost")
	case len(cmd.Argv) == 4 && cmd.Argv[1] == "probe":
		if cmd.Argv[0] != "/agent-"+r.system {
			return conn.Exit{}, fault.New(fault.NotFound, "no %s in %s", cmd.Argv[0], r.system)
		}
		b, err := json.Marshal(facts.Fingerprint{Schema: facts.FingerprintSchema,
			Facts: map[string]string{"os": "System " + r.system, "kernel": "Linux 6"}})
		if err != nil {
			return conn.Exit{}, err
		}
		_, err = cmd.Stdout.Write(b)
		return conn.Exit{}, err
	default:
		return conn.Exit{}, fault.New(fault.NotFound, "no program %s", cmd.Argv[0])
	}
	return conn.Exit{}, nil
}

func (r *rack) Push(context.Context, string, fs.FileMode, io.Reader) error { return nil }

const rackLab = `schema: bakeoff/lab/v1
name: rack
hosts: {box: {ssh: box, switch: {one: [next, one], two: [next, two]}, expect: {one: System one, two: System two}}}
contenders:
  - {name: base, driver: shelf, host: box, system: one}
  - {name: slow, driver: shelf, host: box, system: two}
baseline: base
cells:
  - {name: a, workload: dice, primary: true}
  - {name: b, workload: dice}
design: {looks: [8], alphas: [.05]}
`

// rackBench is a run on a rack, and what is needed to go on with it.
func rackBench(t testing.TB) (*bench, *rack) {
	t.Helper()
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.lab = []byte(rackLab)
	cat := preflight.CatalogueOf(b.drivers, []execution.Runner{b.dice})
	lab, err := manifest.Parse("bakeoff.yaml", b.lab, cat, "")
	if err != nil {
		t.Fatal(err)
	}
	if b.plan, err = plan.Expand(lab, cat, 1, "test"); err != nil {
		t.Fatal(err)
	}
	return b, newRack(t)
}

func (b *bench) runOn(ctx context.Context, r *rack) (Outcome, []store.Line, error) {
	b.t.Helper()
	o, done := b.options(ctx)
	defer done()
	o.Boxes = map[string]*env.Box{"box": {Name: "box", At: r, Host: b.plan.Hosts["box"], Limit: time.Minute,
		Pause: time.Millisecond, Systems: []system.System{}}}
	out, err := Run(ctx, o)
	lines, jerr := o.Run.Journal()
	if jerr != nil {
		b.t.Fatal(jerr)
	}
	if n := b.shelf.open.Load(); n != 0 {
		b.t.Errorf("%d environments were never given back", n)
	}
	for _, system := range []string{"one", "two"} {
		state := filepath.Join(r.dir, system, "state")
		if left, err := env.LeasesOn(ctx, r.Here, state); err != nil || len(left) > 0 {
			b.t.Errorf("leases left in %s: %v %v", system, left, err)
		}
	}
	return out, lines, err
}

func isBoot(l store.Line) bool { return l.Type == store.LineBoot }

// Every block boots each system once and the baseline's once more for its
// twin, in the order that was drawn; trials run in their own system.
func TestOneBoxSeveralSystems(t *testing.T) {
	b, r := rackBench(t)
	b.dice.run = func(tg execution.Target, _ int64) error {
		name := tg.Subject.(*book).spec.Name
		if want := map[bool]string{true: "two", false: "one"}[name == "slow"]; r.at() != want {
			return fault.New(fault.Lab, "%s was measured in %s", name, r.at())
		}
		return nil
	}
	out, lines, err := b.runOn(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if out.Results.Blocks != 8 || out.Results.Void != 0 {
		t.Errorf("%d blocks count and %d are void, want 8 and 0", out.Results.Blocks, out.Results.Void)
	}
	if c := out.Results.Comparisons[0]; c.Verdict != "worse" || *c.Ratio < .48 || *c.Ratio > .52 {
		t.Errorf("comparison %+v, want slow worse at half", c)
	}
	var want []string
	for _, k := range b.plan.Blocks[:8] {
		for _, boot := range k.Boots {
			want = append(want, boot.System)
		}
	}
	if !slices.Equal(r.said, want) {
		t.Errorf("booted %v, drawn was %v", r.said, want)
	}
	ids := map[string]bool{}
	for _, l := range lines {
		if isBoot(l) {
			ids[l.Boot.ID] = true
			if l.Status != store.OK || l.Boot.Same != "uuid u1" || l.Boot.Named != "System "+l.Boot.System+", Linux 6" {
				t.Errorf("boot %+v %+v", l, l.Boot)
			}
		}
	}
	if len(ids) != 24 {
		t.Errorf("%d boots in the journal, want 24", len(ids))
	}
	once(t, b.plan, lines)
	run, err := store.Open(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.Load(run, []workload.Parser{b.dice}); err != nil {
		t.Errorf("read back: %v", err)
	}
}

// A machine in whose place another answers ends the run, with both named.
func TestAnotherMachineComesUp(t *testing.T) {
	b, r := rackBench(t)
	r.up = func(n int, next string) (string, string) {
		if n == 5 {
			return next, "u2"
		}
		return next, "u1"
	}
	_, lines, err := b.runOn(t.Context(), r)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "uuid u1") ||
		!strings.Contains(err.Error(), "uuid u2") {
		t.Errorf("error %v, want Unsupported with both machines", err)
	}
	if n := count(lines, func(l store.Line) bool {
		return l.Type == store.LineBlock &&
			l.Status == store.Void
	}); r.boots != 5 || n != 1 {
		t.Errorf("%d boots and %d void blocks, want 5 and 1", r.boots, n)
	}
}

// A box on which another controller measures is not rebooted.
func TestALockedBoxIsNotBooted(t *testing.T) {
	b, r := rackBench(t)
	held, err := lock.TryFor(r.HostLock(), lock.Me("another"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	_, _, err = b.runOn(t.Context(), r)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "(run another, started by ") {
		t.Errorf("error %v, want Unsupported with the run", err)
	}
	if r.boots != 0 || r.next != "" {
		t.Errorf("it was booted %d times, and %q was chosen", r.boots, r.next)
	}
}

// The wrong system voids its block, and a spare one takes its place.
func TestTheWrongSystemComesUp(t *testing.T) {
	b, r := rackBench(t)
	r.up = func(n int, next string) (string, string) {
		if n == 4 {
			return "three", "u1"
		}
		return next, "u1"
	}
	out, lines, err := b.runOn(t.Context(), r)
	if err != nil || out.Results.Blocks != 8 || out.Results.Void != 1 {
		t.Fatalf("%v; %d blocks count and %d are void, want 8 and 1", err, out.Results.Blocks, out.Results.Void)
	}
	for _, kind := range []string{store.LineBoot, store.LineBlock} {
		if count(lines, func(l store.Line) bool {
			return l.Type == kind && l.Status == store.Void && strings.Contains(l.Reason, `(got "System three`)
		}) != 1 {
			t.Errorf("no %s says which system came up instead", kind)
		}
	}
}

// A machine that no longer boots is not retried forever.
func TestNothingComesUp(t *testing.T) {
	b, r := rackBench(t)
	r.up = func(int, string) (string, string) { return "three", "u1" }
	out, lines, err := b.runOn(t.Context(), r)
	if err != nil || out.Ended != analysis.EndedVoid || count(lines, isBoot) != maxFallenBoots {
		t.Errorf("%v, ended %q after %d boots; want void after %d", err, out.Ended, count(lines, isBoot), maxFallenBoots)
	}
}

func TestABootThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rack, h *manifest.Host)
		want   string
		kind   fault.Kind
	}{
		"the switch is refused": {func(_ *rack, h *manifest.Host) { h.Switch = map[string][]string{"two": {"absent"}} },
			"switch", fault.Lab},
		"no such system":        {func(_ *rack, h *manifest.Host) { h.Switch = nil }, "no system", fault.Unsupported},
		"it does not come back": {func(r *rack, _ *manifest.Host) { r.looks = 1 << 30 }, "did not come up again", fault.Lab},
		"it does not go down": {func(_ *rack, h *manifest.Host) { h.Reboot = []string{"next", "two"} },
			"has not rebooted", fault.Lab},
		"nothing tells it": {func(r *rack, _ *manifest.Host) {
			r.up = func(_ int, next string) (string,
				string) {
				return next, ""
			}
		}, "neither", fault.Unsupported},
		"nobody knows the name": {func(_ *rack, h *manifest.Host) { h.Expect = nil }, "cannot identify", fault.Lab},
	} {
		limits := []time.Duration{time.Minute}
		if c.want == "did not come up again" || c.want == "has not rebooted" { // these it says at its limit
			// A busy machine may reach the first one before it has rebooted anything.
			limits = []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute}
		}
		said := func(err error) bool {
			return err != nil && fault.Of(err) == c.kind && strings.Contains(err.Error(), c.want)
		}
		var err error
		for i := 0; i < len(limits) && !said(err); i++ {
			r := newRack(t)
			h := manifest.Host{Switch: map[string][]string{"two": {"next", "two"}},
				Expect: map[string]string{"two": "System two"}}
			c.change(r, &h)
			box := env.Box{Name: "box", At: r, Host: h, Limit: limits[i], Pause: time.Millisecond}
			_, err = box.Boot(t.Context(), "two")
		}
		if !said(err) {
			t.Errorf("%s: error %v, want %v with %q", name, err, c.kind, c.want)
		}
	}
}

// clocked is a BSD whose clock is set while it shuts down, which changes its boot ID.
type clocked struct {
	*rack
	set, seen bool // whether the clock was set before the reboot, and whether somebody connected since
}

func (c *clocked) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if cmd.Argv[0] == "reboot" {
		c.set, c.boot = true, "clock was set"
		return conn.Exit{}, nil
	}
	return c.rack.Exec(ctx, cmd)
}

func (c *clocked) Clock(ctx context.Context) (channel.Clock, error) {
	if c.set {
		return channel.Clock{SystemNS: time.Hour.Nanoseconds()}, nil
	}
	return c.rack.Clock(ctx)
}

// Alive fails once while the machine shuts down; the next time it has gone down.
func (c *clocked) Alive(ctx context.Context) error {
	switch {
	case c.set && c.seen:
		c.set, c.boot = false, ""
		_, err := c.rack.Exec(ctx, conn.Cmd{Argv: []string{"reboot"}})
		return err
	case c.set:
		return fault.New(fault.Lab, "the session is lost")
	}
	return c.rack.Alive(ctx)
}

func (c *clocked) Reconnect(ctx context.Context) error {
	c.seen = c.set
	return c.rack.Reconnect(ctx)
}

// A boot ID that changed because the clock was set is no reboot.
func TestASetClockIsNoBoot(t *testing.T) {
	r := newRack(t)
	h := manifest.Host{Switch: map[string][]string{"one": {"next", "one"}}, Expect: map[string]string{"one": "System one"}}
	box := env.Box{Name: "box", At: &clocked{rack: r}, Host: h, Limit: time.Minute, Pause: time.Millisecond}
	up, err := box.Boot(t.Context(), "one")
	if err != nil || r.boots != 1 || up.ID != "boot 1" {
		t.Errorf("%v: boot %q after %d reboots, want boot 1 after one", err, up.ID, r.boots)
	}
}

// The machine that bakeoff runs on is neither switched nor rebooted.
func TestTheControllerIsNotBooted(t *testing.T) {
	r := newRack(t)
	if r.boot = probe.Boot(); r.boot == "" {
		t.Skip("this system does not tell one boot from another")
	}
	h := manifest.Host{Switch: map[string][]string{"one": {"next", "one"}}}
	box := env.Box{Name: "box", At: r, Host: h, Limit: time.Minute, Pause: time.Millisecond}
	_, err := box.Boot(t.Context(), "one")
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "the machine that bakeoff runs on") {
		t.Errorf("error %v, want Unsupported", err)
	}
	if r.boots != 0 || r.next != "" {
		t.Errorf("it was rebooted %d times, and %q was chosen", r.boots, r.next)
	}
}

// A controller that is killed between two boots is gone on with, whatever
// system the machine is in: its block is void where it had begun.
func TestResumedInAnotherSystem(t *testing.T) {
	b, r := rackBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.dice.run = func(_ execution.Target, n int64) error {
		if n == 30 {
			cancel()
		}
		return nil
	}
	if out, _, err := b.runOn(ctx, r); err != nil || out.Ended != analysis.EndedInterrupted {
		t.Fatalf("%v, ended %q", err, out.Ended)
	}
	journal := filepath.Join(b.dir, store.JournalFile)
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	// As kill -9 leaves it: without the lines of the end, in another system.
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	if err := os.WriteFile(journal, []byte(strings.Join(lines[:len(lines)-2], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	r.system = "three"
	b.dice.run = nil
	out, all, err := b.runOn(t.Context(), r)
	if err != nil || out.Results.Blocks != 8 || out.Results.Void != 1 {
		t.Fatalf("%v; %d blocks count and %d are void, want 8 and 1", err, out.Results.Blocks, out.Results.Void)
	}
	once(t, b.plan, all)
}
