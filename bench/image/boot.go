package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/bench/mirror"
	"bakeoff/lab/hosts"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/initramfs"
)

// goalBoot is how many times as long a guest may take through bakeoff.
const goalBoot = 1.02

// firstOutput is what the guest's first program writes, and first is the program.
const (
	firstOutput = "the first program runs"
	first       = `package main

import (
	"os"
	"time"
)

func main() {
	for {
		os.Stdout.WriteString("` + firstOutput + `\n")
		time.Sleep(time.Hour)
	}
}
`
)

// bootCPU is the CPU of the guest, and bootLimit the longest wait for it.
const (
	bootCPU   = 0
	bootLimit = 2 * time.Minute
)

// guest is what both sides boot.
type guest struct {
	dir, kernel, disk string
	agent             string // the driver asks it about the host
	append            string // as bakeoff wrote it
	number            int
	memo              driver.Memo     // of what is asked once per run
	before            []time.Duration // from each request until bakeoff started QEMU
}

// measureBoot measures the time from the request for a guest to its first output.
func measureBoot(ctx context.Context, dir string, blocks int, rnd *rand.Rand) error {
	for program, pkg := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "taskset": "util-linux"} {
		if !isInstalled(program) {
			return fault.WithFix(fault.New(fault.Unsupported, "%s is missing", program), "apt-get install "+pkg)
		}
	}
	g := &guest{dir: dir, disk: filepath.Join(dir, "disk.cpio")}
	store := hosts.Controller{Getenv: os.Getenv}.Images(func(text string) { fmt.Fprintln(os.Stderr, text) })
	img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm", Kernel: true})
	if err != nil {
		return err
	}
	g.kernel = img.Kernel
	if g.agent, err = buildAgent(ctx, dir); err != nil {
		return err
	}
	if err := g.packDisk(ctx); err != nil {
		return err
	}
	if _, err := g.bootByDriver(ctx); err != nil { // fills caches, and tells the command line
		return err
	}
	g.before = nil
	fmt.Printf("boot: bakeoff and a QEMU command line, microvm under emulation, from the request to the first output\n\n"+
		"command line of the kernel: %s\n\n%6s  %-8s %8s\n", g.append, "block", "", "time")
	e, err := mirrored(blocks, rnd, func(ours bool) (took time.Duration, text string, err error) {
		if ours {
			took, err = g.bootByDriver(ctx)
		} else {
			took, err = g.bootByHand(ctx)
		}
		return took, "", err
	})
	if err != nil {
		return err
	}
	fmt.Printf("\nboot: time of bakeoff / the command line: %s; goal ≤ %.2f\n",
		mirror.Text(mirror.Inverse(e), 3, blocks, "blocks"), goalBoot)
	slices.Sort(g.before)
	fmt.Printf("boot: bakeoff started QEMU %.1f ms after the request (median of %d)\n",
		g.before[len(g.before)/2].Seconds()*1000, len(g.before))
	return nil
}

// packDisk writes the RAM disk, which has one program.
func (g *guest) packDisk(ctx context.Context) error {
	source, program := filepath.Join(g.dir, "first.go"), filepath.Join(g.dir, "first")
	if err := os.WriteFile(source, []byte(first), 0o600); err != nil {
		return err
	}
	if err := goBuild(ctx, program, source); err != nil {
		return err
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(g.disk)
	if err != nil {
		return err
	}
	defer out.Close()
	a := initramfs.New(out)
	if err := a.File("/init", 0o755, info.Size(), in); err != nil {
		return err
	}
	return a.Close()
}

// bootByDriver boots the guest through the driver.
func (g *guest) bootByDriver(ctx context.Context) (took time.Duration, err error) {
	g.number++
	label := fmt.Sprintf("bench-boot-%d-%d", os.Getpid(), g.number)
	spec := driver.Spec{Label: label, Name: "boot", Dir: filepath.Join(g.dir, label), CPUs: 1, CPUSet: []int{bootCPU},
		Memory: 256 * unit.MiB, Agent: g.agent, Memo: &g.memo, Options: param.Values{"machine": "microvm",
			"accel": "tcg", "kernel": g.kernel,
			"initrd": g.disk, "agent": "none", "ready": "console:" + firstOutput, "boot-timeout": bootLimit.String()}}
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return 0, err
	}
	start := time.Now()
	in, err := qemu.New().Create(ctx, local.Conn{}, spec)
	if err != nil {
		return 0, err
	}
	took = time.Since(start)
	if g.append == "" {
		g.append, err = g.commandLine()
	}
	if err == nil {
		err = g.started(ctx, start, in)
	}
	return took, errors.Join(err, in.Close(context.WithoutCancel(ctx)))
}

// started adds how long after start QEMU was started for in.
func (g *guest) started(ctx context.Context, start time.Time, in driver.Instance) error {
	watched, ok := in.(driver.Watched)
	if !ok {
		return fault.New(fault.Lab, "the driver does not say when it started QEMU")
	}
	seen, err := watched.Moments(ctx)
	for _, m := range seen.List {
		if m.Name == bootmodel.MarkHypervisor {
			g.before = append(g.before, m.At.Sub(start))
		}
	}
	return err
}

// commandLine finds the QEMU that runs with the RAM disk, and returns its option -append.
func (g *guest) commandLine() (string, error) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return "", err
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(text), "\x00")
		if i := slices.Index(args, "-append"); i > 0 && i+1 < len(args) && slices.Contains(args, g.disk) {
			return args[i+1], nil
		}
	}
	return "", fault.New(fault.Lab, "no QEMU runs with %s", g.disk)
}

// bootByHand boots the guest with the shortest command line that does.
func (g *guest) bootByHand(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	c := exec.CommandContext(ctx, "taskset", "-c", fmt.Sprint(bootCPU), "qemu-system-x86_64", "-M",
		"microvm", "-accel", "tcg",
		"-cpu", "max", "-m", "256", "-nodefaults", "-nographic", "-serial", "stdio", "-kernel", g.kernel,
		"-initrd", g.disk, "-append", g.append)
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	for took == 0 && lines.Scan() {
		if strings.Contains(lines.Text(), firstOutput) {
			took = time.Since(start)
		}
	}
	cancel()
	_ = c.Wait() // it was killed
	if took == 0 {
		return 0, fault.New(fault.Lab, "the guest printed no %q", firstOutput)
	}
	return took, nil
}
