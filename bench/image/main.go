// Command image compares what bakeoff does with images with the programs that people
// use for it, side by side in one run: the import of a root file system with tar and
// zstd, a pull with skopeo, and unpacking with umoci.
//
//	go run ./bench/image [-blocks 6] [-root DIR] [-part import]
//
// The image is the root of debian:bookworm, which bakeoff builds if it is not in the
// cache, or the folder DIR. For the pull and for umoci it has three layers, compressed
// with gzip, in a registry that this program starts on the loopback interface.
//
// A block measures both sides twice, in the order ABBA or BAAB, which is drawn from a
// seed. A ratio is how many times as long the other program takes; above 1 bakeoff is
// faster. The archives are in the page cache, and what was written before is on the disk
// when a measurement starts.
//
// Both sides end when the files are on the disk. bakeoff and skopeo see to that
// themselves; sync -f does it for tar and umoci. bakeoff computes the digests of all
// that it reads, twice for an import, which tar does not. umoci also writes a list of
// all files for umoci repack.
//
// What was unpacked is removed at the end, not between measurements: ext4 does not use
// an inode again that was removed in the last minutes, and the search for another one
// would take most of the time. So it needs space for all of that, in the folder of
// TMPDIR, and a second run within five minutes is slower on both sides.
//
// The parts services and boot run only if -part names them. services builds the shipped
// services, and prints the sizes of agent and web and the time of a build of rescue,
// -blocks times. boot compares the time from the request for a guest until its first
// program has written something, with that of the shortest QEMU command line that boots
// the same kernel and RAM disk on the same CPU, under emulation.
//
// It needs root. Without tar, zstd, gzip, docker-registry, skopeo or umoci, the parts
// that need them are left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/bench/mirror"
	"bakeoff/bench/start"
	"bakeoff/judge/stats"
	"bakeoff/lab/hosts"
	"bakeoff/provision/image"
)

// part is one comparison.
type part struct {
	name, peer string
	goal       float64
	needs      []string // programs, by the Debian packages of the same names
	// ours and theirs do the work in an empty folder.
	ours, theirs func(ctx context.Context, dir string) error
}

func main() {
	blocks := flag.Int("blocks", 6, "number of mirrored blocks")
	root := flag.String("root", "", "folder with the root file system; \"\" is that of debian:bookworm")
	only := flag.String("part", "", "only import, pull, unpack, services or boot")
	seed := flag.Uint64("seed", 1, "seed of the order")
	profile := flag.String("cpuprofile", "", "write a profile of bakeoff's part to this file")
	flag.Parse()
	start.Main("bench/image", func(ctx context.Context) error {
		return runParts(ctx, *blocks, *root, *only, *profile, rand.New(rand.NewPCG(*seed, 0)))
	})
}

func runParts(ctx context.Context, blocks int, root, only, profile string, rnd *rand.Rand) (err error) {
	if blocks < 1 || flag.NArg() > 0 || !slices.Contains([]string{"", "import", "pull", "unpack", "services", "boot"},
		only) {
		return fault.New(fault.Invalid, "usage: image [-blocks N] [-root DIR] "+
			"[-part import|pull|unpack|services|boot], with at least one block")
	}
	if os.Getuid() != 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "the files of an image belong to several users"), "run it as root")
	}
	if only == "services" || only == "boot" {
		dir, err := os.MkdirTemp("", "bench-image-")
		if err != nil {
			return err
		}
		if only == "boot" {
			err = measureBoot(ctx, dir, blocks, rnd)
		} else {
			err = services(ctx, dir, blocks)
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if root == "" {
		store := hosts.Controller{Getenv: os.Getenv}.Images(func(text string) { fmt.Fprintln(os.Stderr, text) })
		img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm"})
		if err != nil {
			return err
		}
		root = img.Dir
	}
	m := &material{root: root}
	if m.dir, err = os.MkdirTemp("", "bench-image-"); err != nil {
		return err
	}
	if err := checkRoom(m.dir, root, blocks, only); err != nil {
		return errors.Join(err, os.Remove(m.dir))
	}
	defer func() { err = errors.Join(err, m.closeRegistry(), os.RemoveAll(m.dir)) }()
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
	for _, p := range []part{m.imports(), m.pullParts(), m.unpacks()} {
		if only != "" && p.name != only {
			continue
		}
		if missing := slices.DeleteFunc(slices.Clone(p.needs), isInstalled); len(missing) > 0 {
			fmt.Printf("%s: left out, because there is no %s: run apt-get install %s\n\n", p.name,
				strings.Join(missing, ", "), strings.Join(missing, " "))
			continue
		}
		if err := m.prepare(ctx, p.name); err != nil {
			return fault.Op("prepare "+p.name, err)
		}
		if err := compare(ctx, p, m, blocks, rnd); err != nil {
			return fault.Op(p.name, err)
		}
	}
	return nil
}

// checkRoom returns an error if the disk of dir cannot hold what the parts write.
func checkRoom(dir, root string, blocks int, only string) error {
	size, err := image.OnDisk(root)
	if err != nil {
		return err
	}
	trees := int64(4*blocks + 1)
	if only == "" {
		trees *= 3 // a part that only downloads writes less
	}
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	if free < trees*size {
		return fault.WithFix(fault.New(fault.Unsupported, "%s has %d MiB free, and %d blocks need %d MiB", dir, free>>20,
			blocks, trees*size>>20), "set TMPDIR to another folder, or use fewer -blocks or -part")
	}
	return nil
}

func isInstalled(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// compare measures a part and prints the ratio of the times.
func compare(ctx context.Context, p part, m *material, blocks int, rnd *rand.Rand) error {
	fmt.Printf("%s: bakeoff and %s, %s\n\n%6s  %-8s %8s %8s\n", p.name, p.peer, m.sizesText(p.name), "block", "", "time",
		"CPU time")
	e, err := mirrored(blocks, rnd, func(ours bool) (time.Duration, string, error) {
		work := p.theirs
		if ours {
			work = p.ours
		}
		took, cpu, err := measure(ctx, m, work)
		return took, fmt.Sprintf("%6.3f s", cpu.Seconds()), err
	})
	if err != nil {
		return err
	}
	fmt.Printf("\n%s: time of %s / bakeoff: %s; goal ≥ %.1f\n\n", p.name, p.peer,
		mirror.Text(e, 2, blocks, "blocks"), p.goal)
	return nil
}

// mirrored measures blocks of bakeoff and another program, prints every time with the
// text that once returns, and estimates the logarithm of the ratio, other / bakeoff.
func mirrored(blocks int, rnd *rand.Rand, once func(ours bool) (time.Duration, string, error)) (stats.Estimate, error) {
	e, err := mirror.Blocks(blocks, rnd, func(block int, ours bool) (float64, error) {
		name := "other"
		if ours {
			name = "bakeoff"
		}
		took, text, err := once(ours)
		if err == nil {
			fmt.Printf("%6d  %-8s %6.3f s %s\n", block, name, took.Seconds(), text)
		}
		return took.Seconds(), err
	})
	return mirror.Inverse(e), err
}

// measure does work in a new folder, and returns its time and its CPU time, that of
// other programs included.
func measure(ctx context.Context, m *material, work func(context.Context, string) error) (took, cpu time.Duration,
	err error) {
	dir, err := os.MkdirTemp(m.dir, "work-")
	if err != nil {
		return 0, 0, err
	}
	syscall.Sync()
	before, start := usedCPU(), time.Now()
	err = work(ctx, dir)
	return time.Since(start), usedCPU() - before, err
}

// usedCPU is the CPU time of this process and of the programs that it started and that
// have ended.
func usedCPU() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// command executes a program.
func command(ctx context.Context, argv ...string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, err := c.CombinedOutput()
	if err != nil {
		return fault.New(fault.Lab, "%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
