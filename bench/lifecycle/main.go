// Command lifecycle measures what bakeoff adds to the creation of an
// environment: from asking for one until the first process in it has run and
// ended, against the command that a person would type for the same, of the
// same technology, on the same root, in mirrored pairs in one run.
//
//	go run ./bench/lifecycle [-blocks 12] [-only crun,docker]
//
// Through bakeoff an environment has a control group with limits, a network
// namespace, a root of its own over the image and a way in that stays; the
// bare command has what the technology gives by itself. What is made of several
// processes, like gVisor's sandbox, comes up the sooner the more of them can run
// at a time, so each is told beside one that has as many CPUs: an environment
// that has all of the machine's beside the bare command, which has them, and one
// of one CPU beside the command on one CPU. Beside the latter there is a third,
// the same command with the same network, limits and root made by hand, in a
// script with the programs that are there for it (ip, mount, mkdir), and for
// gVisor with a container that stays and takes a program in by the runtime's own
// exec. Wanted is at most 1.2 times the command, or 20 ms more. The engines are
// given network and limits by their flags, the CPU among them, and a daemon may
// start what they are asked for: they have that command only. How an environment
// of one CPU stands to the bare command on all of them is told, too.
//
// How long an environment takes to go is told, too: as it closes itself, and as
// what a killed controller has left is reaped, with the host's own programs.
//
// It needs root, and what examples/technologies needs. Virtual machines have no
// bare command: what they boot is made by the driver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

func main() {
	blocks := flag.Int("blocks", 12, "mirrored blocks")
	only := flag.String("only", "", "these technologies, separated by commas; empty is all")
	seed := flag.Uint64("seed", 1, "seed of the order")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *blocks, *only, rand.New(rand.NewPCG(*seed, 0))); err != nil {
		fmt.Fprintln(os.Stderr, "lifecycle:", err)
		os.Exit(1)
	}
}

// technology is one of those compared.
type technology struct {
	name    string
	options param.Values
	driver  driver.Driver
	bare    func(b *bench) ([]string, error) // the command, once everything is prepared
	after   func(b *bench) []string          // removes what the command left, untimed
	// alike is the script with network, limits and root, and the one that
	// removes what it left; nil: the bare command has them.
	alike func(b *bench) (run, remove []string, err error)
	image bool

	argv         []string
	hand, remove []string
	times        map[way][]float64 // milliseconds
	// closed is how long it took to take an environment down, in milliseconds:
	// as it closes itself, and as what a killed controller left is removed.
	closed, reaped []float64
}

// way is one of the ways to a first process.
type way string

const (
	bare   way = "bare"           // the bare command, on all CPUs but for the engines
	whole  way = "bakeoff"        // through bakeoff, with all CPUs
	pinned way = "bare, 1 CPU"    // the bare command on the one CPU of a small environment
	byhand way = "by hand, 1 CPU" // with network, limits and root
	small  way = "bakeoff, 1 CPU"
)

// ways are those that t has.
func (t *technology) ways() []way {
	if t.alike == nil {
		return []way{bare, small} // what the command asks for is made by a daemon, or far from it
	}
	return []way{bare, whole, pinned, byhand, small}
}

// pair is what is compared.
type pair struct{ through, with way }

// pairs are those of t, with as many CPUs each but for the last.
func (t *technology) pairs() []pair {
	if t.alike == nil {
		return []pair{{small, bare}}
	}
	return []pair{{whole, bare}, {small, pinned}, {small, byhand}, {small, bare}}
}

// bench is what all of them share.
type bench struct {
	dir     string
	agent   string
	root    string // a root with the agent in it, over the image
	image   driver.Image
	manager *env.Manager
	docker  string // socket of the engine that docker's environments are on
	tag     string
	state   string // where the manager's environments are
	cpu     int    // of an environment that has one
	runsc   string
}

func run(ctx context.Context, blocks int, only string, rng *rand.Rand) (err error) {
	dir, err := os.MkdirTemp("", "bakeoff-lifecycle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, agent: filepath.Join(dir, "bakeoff-agent"), state: filepath.Join(dir, "state")}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.agent, "./cmd/bakeoff-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the agent: %w: %s", err, out)
	}
	_, cache := env.Dirs(os.Getenv, os.Getuid())
	if b.manager, err = env.Open(ctx, env.Config{StateDir: b.state, CacheDir: cache, Host: local.Conn{},
		Agent: b.agent, Run: "lifecycle"}, driverall.Drivers()); err != nil {
		return err
	}
	defer func() {
		cerr := b.manager.Close(context.WithoutCancel(ctx))
		if err == nil {
			err = cerr
		}
	}()
	unmount, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	defer unmount()
	there := b.available(ctx, only)
	if err := b.measure(ctx, there, blocks, rng); err != nil {
		return err
	}
	report(there)
	reportDown(there)
	return nil
}

// available checks the technologies, and makes each once in both ways: what
// is missing is said and left out, and what is cached is then warm.
func (b *bench) available(ctx context.Context, only string) []*technology {
	var there []*technology
	for _, t := range technologies() {
		if only != "" && !slices.Contains(strings.Split(only, ","), t.name) {
			continue
		}
		i := slices.IndexFunc(driverall.Drivers(), func(d driver.Driver) bool { return d.Doc().Name == driverOf(t.name) })
		if i < 0 {
			continue
		}
		t.driver = driverall.Drivers()[i]
		a := t.driver.Check(ctx, local.Conn{}, t.options)
		if !a.OK {
			fmt.Printf("%-8s missing: %s; %s\n", t.name, a.Reason, a.Fix)
			continue
		}
		if p := a.Facts["runsc"]; p != "" {
			b.runsc = p
		}
		t.times = map[way][]float64{}
		if err := b.try(ctx, t); err != nil {
			fmt.Printf("%-8s %v\n", t.name, err)
			continue
		}
		there = append(there, t)
	}
	return there
}

// try goes each way once.
func (b *bench) try(ctx context.Context, t *technology) (err error) {
	if _, err := b.through(ctx, t, 1); err != nil {
		return fmt.Errorf("through bakeoff: %w", err)
	}
	if t.argv, err = t.bare(b); err == nil {
		_, err = b.visit(ctx, t, bare)
	}
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	if t.alike == nil {
		return nil
	}
	if t.hand, t.remove, err = t.alike(b); err == nil {
		_, err = b.visit(ctx, t, byhand)
	}
	if err != nil {
		return fmt.Errorf("by hand: %w", err)
	}
	return nil
}

// measure visits every technology in every block, in random order, each way
// in random order and mirrored.
func (b *bench) measure(ctx context.Context, there []*technology, blocks int, rng *rand.Rand) error {
	for range blocks {
		for _, i := range rng.Perm(len(there)) {
			t := there[i]
			order := t.ways()
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			mirrored := slices.Clone(order)
			slices.Reverse(mirrored)
			sum := map[way]float64{}
			for _, w := range append(order, mirrored...) {
				d, err := b.visit(ctx, t, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, w, err)
				}
				sum[w] += d.Seconds() * 1000 / 2
			}
			for w, ms := range sum {
				t.times[w] = append(t.times[w], ms)
			}
		}
	}
	return nil
}

// memory is every environment's.
const memory = 256 * unit.MiB

// through makes an environment and runs its first process: what the workload
// lifecycle calls first-process, which begins when the lease is written.
func (b *bench) through(ctx context.Context, t *technology, cpus int) (time.Duration, error) {
	img := driver.Image{}
	if t.image {
		img = b.image
	}
	le, err := b.manager.Lease(ctx, t.driver, manifest.Contender{Name: t.name, Driver: driverOf(t.name), CPUs: cpus, Memory: memory, Options: t.options}, img)
	if err != nil {
		return 0, err
	}
	exit, err := le.Exec(ctx, conn.Command(le.Info().Agent, "list"))
	d := time.Since(le.Asked)
	if err == nil && !exit.OK() {
		err = fmt.Errorf("its first process: %v", exit)
	}
	if err != nil {
		le.Return(context.WithoutCancel(ctx))
		return 0, err
	}
	return d, b.down(context.WithoutCancel(ctx), t, le)
}

// down takes an environment down, in one of the two ways in turn.
func (b *bench) down(ctx context.Context, t *technology, le *env.Environment) error {
	start := time.Now()
	if len(t.closed) <= len(t.reaped) {
		err := le.Close(ctx)
		t.closed = append(t.closed, time.Since(start).Seconds()*1000)
		return errors.Join(err, le.Return(ctx))
	}
	_, err := t.driver.Reap(ctx, local.Conn{}, driver.Leftover{Label: le.ID, Dir: env.Place(b.state, le.ID)}, false)
	t.reaped = append(t.reaped, time.Since(start).Seconds()*1000)
	return errors.Join(err, le.Return(ctx))
}

// visit goes one way.
func (b *bench) visit(ctx context.Context, t *technology, w way) (time.Duration, error) {
	switch {
	case w == whole:
		return b.through(ctx, t, len(b.manager.Layout().CPUs))
	case w == small:
		return b.through(ctx, t, 1)
	case w == pinned:
		return b.alone(ctx, local.Conn{CPUs: []int{b.cpu}}, t.argv, nil)
	case w == byhand:
		return b.alone(ctx, local.Conn{}, t.hand, t.remove)
	case t.after != nil:
		return b.alone(ctx, local.Conn{}, t.argv, t.after(b))
	}
	return b.alone(ctx, local.Conn{}, t.argv, nil)
}

// alone runs a command, and then, untimed, what removes what it left.
func (b *bench) alone(ctx context.Context, on local.Conn, argv, remove []string) (time.Duration, error) {
	start := time.Now()
	_, err := conn.Output(ctx, on, argv...)
	d := time.Since(start)
	if remove != nil {
		if _, rerr := conn.Output(context.WithoutCancel(ctx), local.Conn{}, remove...); err == nil {
			err = rerr
		}
	}
	return d, err
}
