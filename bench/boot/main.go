// Boot measures what a large log of a boot costs: 100 MB of tslog, read, checked, searched
// for advice, and drawn as a page. Writing it as folded stacks is measured beside that.
//
//	go run ./bench/boot [-mb 100] [-cpuprofile FILE] [-keep FILE]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strconv"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot/advice"
	"bakeoff/measure/boot/tslog"
	"bakeoff/publish/bootpage"
	"bakeoff/publish/trace"
)

// goal is how long all steps together may take.
const goal = 3 * time.Second

// pageGoal is how large the page may be, in bytes.
const pageGoal = 2 << 20

func main() {
	mb := flag.Int("mb", 100, "size of the log in `megabytes`")
	profile := flag.String("cpuprofile", "", "write a CPU profile to `file`")
	keep := flag.String("keep", "", "write the log to `file`")
	flag.Parse()
	if err := generateAndRead(*mb, *profile, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		os.Exit(1)
	}
}

func generateAndRead(mb int, profile, keep string) error {
	log := generate(mb * 1e6)
	if keep != "" {
		if err := os.WriteFile(keep, log, 0o644); err != nil {
			return err
		}
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Printf("%d bytes, %d lines\n", len(log), bytes.Count(log, []byte("\n")))
	start := time.Now()
	last := start
	step := func(name string) {
		fmt.Printf("%-8s %6.3f s\n", name, time.Since(last).Seconds())
		last = time.Now()
	}
	r, err := tslog.New().Read("log", log)
	if err != nil {
		return err
	}
	step("read")
	if err := bootmodel.Check("log", r); err != nil {
		return err
	}
	step("check")
	found := advice.Find(r)
	step("advice")
	var page bytes.Buffer
	if err := bootpage.Write(&page, bootpage.Boot{Name: "log", Recording: r, Advice: found}); err != nil {
		return err
	}
	step("draw")
	whole := time.Since(start)
	fmt.Printf("%-8s %6.3f s, %d spans on %d tracks (goal: at most %v); the page has %d bytes (goal: at most %d)\n", "all",
		whole.Seconds(), len(r.Spans), len(r.Tracks), goal, page.Len(), pageGoal)
	last = time.Now()
	if err := trace.Write(io.Discard, "folded", r); err != nil {
		return err
	}
	step("folded")
	if whole > goal || page.Len() > pageGoal {
		return fmt.Errorf("%v or %d bytes are above the goal", whole, page.Len())
	}
	return nil
}

// generate makes a log of at least size bytes: several threads that call functions of
// drivers, and a main thread that sometimes waits for one of them.
func generate(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	g := generator{rng: rng, tsc: 163043419271429, out: make([]byte, 0, size+1<<20)}
	g.writeEntry(0, "ENTER main", -1)
	stacks := make([][]int, 9)
	for t := 1; t < len(stacks); t++ {
		g.writeEntry(t, "THREAD driver/", t)
	}
	waits := false
	for len(g.out) < size {
		t := rng.IntN(len(stacks))
		if rng.IntN(3) > 0 {
			t = 0
		}
		switch n := len(stacks[t]); {
		case n < 3 || n < 30 && rng.IntN(2) == 0:
			f := rng.IntN(400)
			stacks[t] = append(stacks[t], f)
			g.writeEntry(t, "ENTER config_attach_loc dev", f)
		default:
			g.writeEntry(t, "EXIT config_attach_loc dev", stacks[t][n-1])
			stacks[t] = stacks[t][:n-1]
		}
		if rng.IntN(10000) == 0 && !waits {
			waits = true
			g.writeEntry(1, "EVENT HOLD root", -1)
			g.writeEntry(0, "EVENT WAIT root", -1)
		} else if waits && rng.IntN(50) == 0 {
			waits = false
			g.writeEntry(1, "EVENT RELEASE root", -1)
			g.writeEntry(0, "EVENT UNWAIT root", -1)
		}
	}
	g.writeEntry(0, "ENTER start_init", -1)
	g.writeEntry(0, "EXIT start_init", -1)
	return g.out
}

type generator struct {
	rng *rand.Rand
	tsc int64
	out []byte
}

// writeEntry writes an entry, with a number after it unless n is negative.
func (g *generator) writeEntry(thread int, text string, n int) {
	g.tsc += 1 + int64(g.rng.IntN(5000))
	g.out = append(g.out, "0xfffff8000"...)
	g.out = strconv.AppendInt(g.out, int64(thread), 16)
	g.out = append(g.out, ' ')
	g.out = strconv.AppendInt(g.out, g.tsc, 10)
	g.out = append(g.out, ' ')
	g.out = append(g.out, text...)
	if n >= 0 {
		g.out = strconv.AppendInt(g.out, int64(n), 10)
	}
	g.out = append(g.out, '\n')
}
