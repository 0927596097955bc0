// Command lifecycle measures what bakeoff adds to the creation of an environment: the
// time from the request until the first process in it has ended, compared with the
// command that a person would type, of the same technology, on the same root, in
// mirrored pairs in one run.
//
//	go run ./bench/lifecycle [-blocks 12] [-only crun,docker]
//
// An environment of bakeoff has a control group with limits, a network namespace, its
// own root over the image, and a connection that stays open. The bare command has what
// the technology gives by itself. A technology of several processes, like gVisor's
// sandbox, starts faster the more of them can run at once. Each is therefore compared
// with one that has as many CPUs: an environment with all CPUs with the bare command on
// all CPUs, and an environment of one CPU with the command on one CPU.
//
// On one CPU there is a third way: the same command with the same network, limits and
// root made by hand, in a script that uses the usual programs (ip, mount, mkdir), and
// for gVisor with a container that stays, in which the runtime's own exec starts the
// program. The target is at most 1.2 times the command, or 20 ms more. The engines take
// network and limits as flags, the CPU among them, and a daemon may start the program,
// so they have that command only. The output also compares an environment of one CPU
// with the bare command on all of them.
//
// It also prints the time of teardown: of an environment that closes itself, and of
// removing what a killed controller left, with the host's own programs.
//
// It needs root, and what examples/technologies needs. Virtual machines have no bare
// command, because the driver creates what they boot.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/bench/start"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/lease"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

func main() {
	blocks := flag.Int("blocks", 12, "number of mirrored blocks")
	only := flag.String("only", "", "technologies to measure, separated by commas (default all)")
	seed := flag.Uint64("seed", 1, "seed of the order")
	flag.Parse()
	start.Main("lifecycle", func(ctx context.Context) error {
		return runBenchmark(ctx, *blocks, *only, rand.New(rand.NewPCG(*seed, 0)))
	})
}

// technology is one technology to compare.
type technology struct {
	name    string
	options param.Values
	driver  driver.Driver
	bare    func(b *bench) ([]string, error) // the command, after everything is prepared
	after   func(b *bench) []string          // removes what the command left, untimed
	// alike returns the script with network, limits and root, and the script
	// that removes what it left. nil: the bare command has all of these.
	alike func(b *bench) (run, remove []string, err error)
	image bool

	argv         []string
	hand, remove []string
	times        map[way][]float64 // milliseconds
	// closed and reaped are the times of teardown in milliseconds: of an
	// environment that closes itself, and of removing what a killed controller left.
	closed, reaped []float64
}

// way is one way to run a first process.
type way string

const (
	bare   way = "bare"           // the bare command, on all CPUs except for the engines
	whole  way = "bakeoff"        // through bakeoff, with all CPUs
	pinned way = "bare, 1 CPU"    // the bare command on the one CPU of a small environment
	byhand way = "by hand, 1 CPU" // with network, limits and root
	small  way = "bakeoff, 1 CPU"
)

// allWays returns the ways that t has.
func (t *technology) allWays() []way {
	if t.alike == nil {
		return []way{bare, small} // a daemon, or a process far from the command, creates the container
	}
	return []way{bare, whole, pinned, byhand, small}
}

// pair is two ways to compare.
type pair struct{ through, with way }

// allPairs returns the pairs of t. Both ways have as many CPUs, except in the last pair.
func (t *technology) allPairs() []pair {
	if t.alike == nil {
		return []pair{{small, bare}}
	}
	return []pair{{whole, bare}, {small, pinned}, {small, byhand}, {small, bare}}
}

// bench holds what all technologies share.
type bench struct {
	dir     string
	agent   string
	root    string // a root with the agent in it, over the image
	image   driver.Image
	manager *env.Manager
	docker  string // socket of the engine of docker's environments
	tag     string
	state   string // where the manager's environments are
	cpu     int    // of an environment with one CPU
	runsc   string
}

func runBenchmark(ctx context.Context, blocks int, only string, rng *rand.Rand) (err error) {
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
	_, cache := lease.Dirs(os.Getenv, os.Getuid())
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
	printReport(there)
	reportDown(there)
	return nil
}

// available checks the technologies, and runs each once in every way. It prints what is
// missing and leaves it out. Caches are warm afterwards.
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
		if err := b.tryWays(ctx, t); err != nil {
			fmt.Printf("%-8s %v\n", t.name, err)
			continue
		}
		there = append(there, t)
	}
	return there
}

// tryWays runs each way once.
func (b *bench) tryWays(ctx context.Context, t *technology) (err error) {
	if _, err := b.through(ctx, t, 1); err != nil {
		return fmt.Errorf("through bakeoff: %w", err)
	}
	if t.argv, err = t.bare(b); err == nil {
		_, err = b.runWay(ctx, t, bare)
	}
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	if t.alike == nil {
		return nil
	}
	if t.hand, t.remove, err = t.alike(b); err == nil {
		_, err = b.runWay(ctx, t, byhand)
	}
	if err != nil {
		return fmt.Errorf("by hand: %w", err)
	}
	return nil
}

// measure visits every technology in every block in random order, and each way in random
// order and mirrored.
func (b *bench) measure(ctx context.Context, there []*technology, blocks int, rng *rand.Rand) error {
	for range blocks {
		for _, i := range rng.Perm(len(there)) {
			t := there[i]
			order := t.allWays()
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			mirrored := slices.Clone(order)
			slices.Reverse(mirrored)
			sum := map[way]float64{}
			for _, w := range append(order, mirrored...) {
				d, err := b.runWay(ctx, t, w)
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

// memory is the memory of every environment.
const memory = 256 * unit.MiB

// through creates an environment and runs its first process. This is what the workload
// lifecycle calls first-process, which starts when the lease is written.
func (b *bench) through(ctx context.Context, t *technology, cpus int) (time.Duration, error) {
	img := driver.Image{}
	if t.image {
		img = b.image
	}
	le, err := b.manager.Lease(ctx, t.driver, manifest.Contender{Name: t.name, Driver: driverOf(t.name), CPUs: cpus,
		Memory: memory, Options: t.options}, img)
	if err != nil {
		return 0, err
	}
	exit, err := le.Exec(ctx, conn.Command(le.Info().Agent, "list"))
	d := time.Since(le.Asked)
	if err == nil && !exit.OK() {
		err = fmt.Errorf("the first process: %v", exit)
	}
	if err != nil {
		le.Return(context.WithoutCancel(ctx))
		return 0, err
	}
	return d, b.removeEnvironment(context.WithoutCancel(ctx), t, le)
}

// removeEnvironment removes an environment, alternating between the two ways.
func (b *bench) removeEnvironment(ctx context.Context, t *technology, le *env.Environment) error {
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

// runWay runs one way.
func (b *bench) runWay(ctx context.Context, t *technology, w way) (time.Duration, error) {
	switch {
	case w == whole:
		return b.through(ctx, t, len(b.manager.Layout().CPUs))
	case w == small:
		return b.through(ctx, t, 1)
	case w == pinned:
		return b.runAlone(ctx, local.Conn{CPUs: []int{b.cpu}}, t.argv, nil)
	case w == byhand:
		return b.runAlone(ctx, local.Conn{}, t.hand, t.remove)
	case t.after != nil:
		return b.runAlone(ctx, local.Conn{}, t.argv, t.after(b))
	}
	return b.runAlone(ctx, local.Conn{}, t.argv, nil)
}

// runAlone runs a command and then, untimed, the one that removes what it left.
func (b *bench) runAlone(ctx context.Context, on local.Conn, argv, remove []string) (time.Duration, error) {
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
