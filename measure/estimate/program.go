package estimate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/measure/codec"
)

// Run runs a program (argv[0] is its name) and returns its standard output and
// its standard error.
type Run func(ctx context.Context, argv []string) (out, complaints []byte, err error)

// Program is zstd, the reference implementation that ZFS and btrfs contain.
type Program struct {
	Version string // 1.5.4
	name    string
	// rows: it has a quicker way to look for matches that needs instructions
	// which kernels may not use.
	rows bool
	run  Run
}

// Bounds of one call of the program: the number of files, and the time.
const (
	programFiles = 2000
	programTime  = 10 * time.Minute
)

var zstdVersion = lazy.Compile(`\bv(\d{1,4})\.(\d{1,4})\.(\d{1,4})\b`)

// NewProgram gets the version of zstd, given by a path or found in PATH. An
// error of kind fault.Unsupported says that it is missing, or another program.
func NewProgram(ctx context.Context, name string, run Run) (*Program, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, _, err := run(ctx, []string{name, "--version"})
	if err != nil {
		return nil, fault.WithFix(fault.Wrap(fault.Unsupported, name, err), "apt-get install zstd")
	}
	m := zstdVersion.FindSubmatch(out)
	if m == nil || !strings.Contains(strings.ToLower(string(out)), "zst") {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "cannot read the version of zstd from %s: %.80q", name,
			out), "apt-get install zstd")
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	return &Program{Version: strings.TrimPrefix(string(m[0]), "v"), name: name, rows: major > 1 || major == 1 &&
		minor >= 5, run: run}, nil
}

// commandFor is a command that processes each file separately, with one thread.
func (p *Program) commandFor(options []string, files []string) []string {
	a := append([]string{p.name, "-q", "--single-thread"}, options...)
	if p.rows {
		a = append(a, "--no-row-match-finder")
	}
	return append(append(a, "--"), files...)
}

// frame has the length of a compressed file, and of the part before its first
// block, in bytes.
type frame struct{ size, header int }

// frameSizes compresses each file separately and returns the lengths of the
// results.
func (p *Program) frameSizes(ctx context.Context, level int, files []string) ([]frame, error) {
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	var frames []frame
	for len(files) > 0 {
		n := min(len(files), programFiles)
		out, complaints, err := p.run(ctx, p.commandFor([]string{"-" + strconv.Itoa(level), "--no-check", "-c"}, files[:n]))
		if err != nil {
			return nil, fault.New(fault.Lab, "%s -%d: %w: %.200s", p.name, level, err, complaints)
		}
		got, err := splitFrames(out, n)
		if err != nil {
			return nil, fault.New(fault.Lab, "%s -%d: %w", p.name, level, err)
		}
		frames, files = append(frames, got...), files[n:]
	}
	return frames, nil
}

// splitFrames separates n consecutive frames.
func splitFrames(out []byte, n int) ([]frame, error) {
	frames := make([]frame, 0, n)
	for len(out) > 0 {
		size, header, err := codec.ZstdFrame(out)
		if err != nil {
			return nil, err
		}
		frames, out = append(frames, frame{size, header}), out[size:]
	}
	if len(frames) != n {
		return nil, fmt.Errorf("zstd compressed %d files into %d frames", n, len(frames))
	}
	return frames, nil
}

// programClock is how often the program measures. The fastest measurement
// counts, as in its own benchmark, because other load only makes it slower.
const programClock = 3

// measuredSpeed returns the compression speed that the program measures for the files,
// each separately and in memory, in bytes per second; 0 if it reports none.
func (p *Program) measuredSpeed(ctx context.Context, level int, files []string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	fastest := 0.0
	for range programClock {
		out, complaints, err := p.run(ctx, p.commandFor([]string{"-b" + strconv.Itoa(level), "-i0"}, files))
		if err != nil {
			return 0, fault.New(fault.Lab, "%s -b%d: %w: %.200s", p.name, level, err, complaints)
		}
		fastest = max(fastest, parseSpeed(append(out, complaints...)))
	}
	return fastest, nil
}

// A line of the benchmark: "-3  1217358 (2.957) 130.65 MB/s  442.1 MB/s  882 files".
var zstdBench = lazy.Compile(`(?m)^-?-\d+\s+\d+ \([\d.]+\)\s+([\d.]+) MB/s\s+[\d.]+ MB/s`)

// parseSpeed parses the first speed in the output of a benchmark, in bytes per
// second; 0 if there is none. A megabyte is a million bytes.
func parseSpeed(out []byte) float64 {
	m := zstdBench.FindSubmatch(out)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || !(v > 0 && v < 1e9) {
		return 0
	}
	return v * 1e6
}
