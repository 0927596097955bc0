// Command vm measures the time from `bakeoff vm run` until the guest answers its first HTTP
// request, compared with the bare command line of QEMU or crun on the same files, in
// mirrored blocks in one run.
//
//	go run ./bench/vm [-blocks 6] [-only microvm,ram,container] [-service services/web]
//
// The bare command of a machine is what a person types: the same kernel, RAM disk and disk,
// the machine microvm under emulation, and the same port. Its writes to the disk go to a
// temporary file (snapshot=on). The bare command of the container is `crun run` on a root
// that is mounted, in a network namespace that exists, before the clock starts. The
// service has been built before: both sides only start it.
//
// What bakeoff adds is the difference of the two medians. The goal is at most 100 ms. Also
// printed is the time until `bakeoff vm run` ended.
//
// With -many N it creates N containers at once instead, and prints the times of creating,
// listing and removing them. The goal for a list of 50 guests is at most 50 ms.
//
// It needs root, qemu-system-x86, crun, and what services/web needs.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/bench/mirror"
	"bakeoff/bench/start"
	"bakeoff/provision/service/build"
)

// goal is how much later the guest may answer through bakeoff, and goalList how long the list
// of many guests may take, in seconds.
const (
	goal     = 0.1
	goalList = 0.05
)

// answerLimit bounds the wait for an answer, and pollTime is the time between two requests.
const (
	answerLimit = 5 * time.Minute
	pollTime    = 2 * time.Millisecond
)

func main() {
	blocks := flag.Int("blocks", 6, "number of mirrored blocks")
	only := flag.String("only", "microvm,ram,container", "what to measure, separated by commas")
	folder := flag.String("service", "services/web", "folder of the service; it answers at port 80")
	many := flag.Int("many", 0, "create this many containers at once instead")
	seed := flag.Uint64("seed", 1, "seed of the order")
	flag.Parse()
	start.Main("bench/vm", func(ctx context.Context) error {
		return measure(ctx, *folder, *only, *blocks, *many, rand.New(rand.NewPCG(*seed, 0)))
	})
}

// bench holds what all ways share.
type bench struct {
	dir, program string
	service      string
	port         int
	built        build.Result
	bare         *bareContainer
}

// way is one technology.
type way struct {
	name string
	args []string // of bakeoff vm run
	// theirs starts the bare command; the function that it returns ends it.
	theirs func(ctx context.Context) (end func() error, err error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error) // to the bare one; nil is usual
	at     int                                                                  // port of the bare one
}

func measure(ctx context.Context, folder, only string, blocks, many int, rnd *rand.Rand) (err error) {
	if blocks < 1 || many < 0 || flag.NArg() > 0 {
		return fault.New(fault.Invalid, "usage: vm [-blocks N] [-only microvm,ram,container] [-many N]")
	}
	if os.Getuid() != 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "guests need root"), "run it as root")
	}
	b := &bench{}
	if b.service, err = filepath.Abs(folder); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "bench-vm-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.build(ctx); err != nil {
		return err
	}
	if many > 0 {
		return b.many(ctx, many)
	}
	ways := []way{
		{name: "microvm", args: []string{"--accel", "tcg"}, theirs: b.machine(false)},
		{name: "ram", args: []string{"--accel", "tcg", "--in-memory", "--memory", "1GiB"}, theirs: b.machine(true)},
		{name: "container", args: []string{"--brand", "docker"}},
	}
	for _, w := range ways {
		if !slices.Contains(strings.Split(only, ","), w.name) {
			continue
		}
		if w.theirs == nil {
			if b.bare, err = b.prepareContainer(ctx); err != nil {
				return err
			}
			w.theirs, w.dial, w.at = b.bare.start, b.bare.dial, 80
		}
		err := b.compare(ctx, w, blocks, rnd)
		if b.bare != nil {
			err = errors.Join(err, b.bare.remove())
		}
		if err != nil {
			return fault.Op(w.name, err)
		}
	}
	return nil
}

// build builds both programs and the service.
func (b *bench) build(ctx context.Context) error {
	b.program = filepath.Join(b.dir, "bakeoff")
	for name, pkg := range map[string]string{"bakeoff": "./cmd/bakeoff", "bakeoff-agent": "./cmd/bakeoff-agent"} {
		c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(b.dir, name), pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	out, err := b.command(ctx, "image", "build", "--json", b.service)
	if err != nil {
		return err
	}
	var doc struct{ Services []build.Result }
	if err := json.Unmarshal(out, &doc); err != nil {
		return err
	}
	if len(doc.Services) != 1 {
		return fault.New(fault.Lab, "%s has %d services", b.service, len(doc.Services))
	}
	b.built = doc.Services[0]
	return nil
}

// command executes bakeoff, with guests of its own, and returns what it prints.
func (b *bench) command(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, b.program, args...)
	c.Env = append(os.Environ(), "BAKEOFF_STATE="+filepath.Join(b.dir, "state"), "BAKEOFF_AGENT="+
		filepath.Join(b.dir, "bakeoff-agent"))
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("bakeoff %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out, nil
}

// times are those of one start, in seconds.
type times struct{ answer, command []float64 }

func (b *bench) compare(ctx context.Context, w way, blocks int, rnd *rand.Rand) error {
	ours, theirs := &times{}, &times{}
	if _, err := b.ours(ctx, w, &times{}); err != nil { // fills caches
		return err
	}
	e, err := mirror.Blocks(blocks, rnd, func(block int, our bool) (took float64, err error) {
		name := "bare"
		if our {
			name = "bakeoff"
			took, err = b.ours(ctx, w, ours)
		} else {
			took, err = b.theirs(ctx, w, theirs)
		}
		if err == nil {
			fmt.Printf("%-10s %3d  %-8s %8.1f ms\n", w.name, block, name, took*1000)
		}
		return took, err
	})
	if err != nil {
		return err
	}
	added := median(ours.answer) - median(theirs.answer)
	fmt.Printf("%s: first answer after %.0f ms through bakeoff, %.0f ms bare (medians); bakeoff adds %.0f ms, "+
		"goal ≤ %.0f; ratio %s\n", w.name, 1000*median(ours.answer), 1000*median(theirs.answer), 1000*added, 1000*goal,
		mirror.Text(e, 3, blocks, "blocks"))
	fmt.Printf("%s: bakeoff vm run ended after %.0f ms (median)\n\n", w.name, 1000*median(ours.command))
	return nil
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// ours starts a guest by bakeoff.
func (b *bench) ours(ctx context.Context, w way, t *times) (float64, error) {
	start := time.Now()
	out, err := b.command(ctx, append([]string{"vm", "run", b.service, "-p", strconv.Itoa(b.port) + ":80"}, w.args...)...)
	if err != nil {
		return 0, err
	}
	ended := time.Since(start).Seconds()
	uuid := strings.TrimSpace(string(out))
	err = awaitAnswer(ctx, nil, b.port)
	took := time.Since(start).Seconds()
	_, derr := b.command(context.WithoutCancel(ctx), "vm", "delete", uuid)
	if err = errors.Join(err, derr); err != nil {
		return 0, err
	}
	t.answer, t.command = append(t.answer, took), append(t.command, ended)
	return took, nil
}

func (b *bench) theirs(ctx context.Context, w way, t *times) (float64, error) {
	start := time.Now()
	end, err := w.theirs(ctx)
	if err != nil {
		return 0, err
	}
	port := w.at
	port = cmp.Or(port, b.port)
	err = awaitAnswer(ctx, w.dial, port)
	took := time.Since(start).Seconds()
	if err = errors.Join(err, end()); err != nil {
		return 0, err
	}
	t.answer = append(t.answer, took)
	return took, nil
}

// awaitAnswer waits until a server answers with its page.
func awaitAnswer(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), port int) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	for {
		// QEMU accepts a connection before the guest can, which then waits for an answer
		// that never comes.
		one, done := context.WithTimeout(ctx, time.Second)
		err := ask(one, &client, port)
		done()
		if err == nil {
			return nil
		}
		if sleep.For(ctx, pollTime) != nil {
			return fmt.Errorf("no answer at port %d: %w", port, err)
		}
	}
}

func ask(ctx context.Context, client *http.Client, port int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/", http.NoBody)
	if err != nil {
		return err
	}
	got, err := client.Do(r)
	if err != nil {
		return err
	}
	got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return errors.New(got.Status)
	}
	return nil
}

// many creates containers at once, lists and removes them.
func (b *bench) many(ctx context.Context, n int) error {
	type result struct {
		uuid string
		err  error
	}
	results := make(chan result)
	run := []string{"vm", "run", b.service, "--brand", "docker", "--memory", "64MiB"}
	start := time.Now()
	for range n {
		go func() {
			out, err := b.command(ctx, run...)
			results <- result{strings.TrimSpace(string(out)), err}
		}()
	}
	var all []string
	var failed error
	for range n {
		r := <-results
		failed = errors.Join(failed, r.err)
		if r.err == nil {
			all = append(all, r.uuid)
		}
	}
	created := time.Since(start)
	var lists []float64
	for range 20 {
		start := time.Now()
		_, err := b.command(ctx, "vm", "list")
		failed = errors.Join(failed, err)
		lists = append(lists, time.Since(start).Seconds())
	}
	start = time.Now()
	for _, uuid := range all {
		_, err := b.command(context.WithoutCancel(ctx), "vm", "delete", uuid)
		failed = errors.Join(failed, err)
	}
	fmt.Printf("%d containers at once: created after %.1f s; list takes %.0f ms (median of %d, %.0f to %.0f), "+
		"goal ≤ %.0f; removed one after another in %.1f s\n", len(all), created.Seconds(), 1000*median(lists), len(lists),
		1000*slices.Min(lists), 1000*slices.Max(lists), 1000*goalList, time.Since(start).Seconds())
	return failed
}

// tsc is the frequency of the time stamp counter as bakeoff found it.
func (b *bench) tsc() (string, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, "state", "vm", "emulator-microvm.json"))
	if err != nil {
		return "", err
	}
	var c struct {
		TSCKHz int64 `json:"tsc_khz"`
	}
	err = json.Unmarshal(text, &c)
	return strconv.FormatInt(c.TSCKHz, 10), err
}
