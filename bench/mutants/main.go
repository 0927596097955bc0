// Command mutants measures how many small wrong changes the tests of a package notice.
// It changes the source in one place at a time: a flipped comparison, a constant that is
// off by one, a dropped statement. It compiles the package with that change through
// "go test -overlay" and runs the package's own short tests. The working tree stays as it
// is.
//
//	go run ./bench/mutants -per 100 -seed 1 ./judge/stats ./judge/compare
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	per := flag.Int("per", 100, "mutants per package that compile; 0 for all")
	seed := flag.Uint64("seed", 1, "seed of the sample")
	match := flag.String("match", "", "try only mutants whose line of output matches this regular expression")
	list := flag.Bool("list", false, "list the sampled mutants, and run nothing")
	flag.Parse()
	chosen, err := regexp.Compile(*match)
	if err != nil || *per < 0 || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "mutants: name packages, for example ./judge/stats; -per must not be negative, and -match "+
			"must be a regular expression")
		os.Exit(2)
	}
	b := bench{out: os.Stdout, per: *per, seed: *seed, chosen: chosen, list: *list}
	if err := b.testMutants(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// bench is one measurement.
type bench struct {
	out    io.Writer
	per    int
	seed   uint64
	chosen *regexp.Regexp
	list   bool
	dir    string // a temporary directory
}

// pkg is what the go command says of a package.
type pkg struct {
	Dir, ImportPath string
	GoFiles         []string
}

// count counts the fates of the mutants of one package.
type count struct{ killed, survived, notCompiled int }

func (b bench) testMutants(patterns []string) error {
	packages, err := loadPackages(patterns)
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, p := range packages {
		all, err := b.sampleMutants(p)
		if err != nil {
			return err
		}
		if b.list {
			for _, m := range all {
				fmt.Fprintln(b.out, m)
			}
			continue
		}
		begin := time.Now()
		n, err := b.measure(p, all)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "%s: %d of %d mutants killed (%.0f %%), %d survived; %d did not compile; seed %d, "+
			"%d mutants known, %.0f s\n", p.ImportPath, n.killed, n.killed+n.survived,
			100*float64(n.killed)/float64(max(1, n.killed+n.survived)),
			n.survived, n.notCompiled, b.seed, len(all), time.Since(begin).Seconds())
	}
	return nil
}

// loadPackages asks the go command for packages.
func loadPackages(patterns []string) (out []pkg, err error) {
	list := exec.Command("go", append([]string{"list", "-json=Dir,ImportPath,GoFiles"}, patterns...)...)
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// sampleMutants returns the mutants of a package in the order drawn from the seed.
func (b bench) sampleMutants(p pkg) (out []mutant, err error) {
	for _, name := range p.GoFiles {
		file := filepath.Join(p.Dir, name)
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if wd, err := os.Getwd(); err == nil {
			if short, err := filepath.Rel(wd, file); err == nil {
				file = short
			}
		}
		found, err := mutants(file, source)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if b.chosen.MatchString(m.String()) {
				out = append(out, m)
			}
		}
	}
	h := fnv.New64a()
	io.WriteString(h, p.ImportPath)
	r := rand.New(rand.NewPCG(b.seed, h.Sum64()))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out, nil
}

// measure tries mutants until enough of them compiled.
func (b bench) measure(p pkg, all []mutant) (n count, err error) {
	fate, usual, err := b.tryMutant(p, mutant{}, time.Hour)
	if err != nil || fate != survived {
		return n, errors.Join(fmt.Errorf("%s: the tests fail without any change", p.ImportPath), err)
	}
	limit := max(5*time.Second, 4*usual)
	for _, m := range all {
		if b.per > 0 && n.killed+n.survived >= b.per {
			break
		}
		fate, _, err := b.tryMutant(p, m, limit)
		if err != nil {
			return n, fmt.Errorf("%s: %w", m, err)
		}
		switch fate {
		case notCompiled:
			n.notCompiled++
		case killed:
			n.killed++
		default:
			n.survived++
			fmt.Fprintln(b.out, "survived:", m)
		}
	}
	return n, nil
}

// fate is what became of a mutant.
type fate int

const (
	notCompiled fate = iota
	killed
	survived
)

// memoryKiB bounds the address space of a test: a mutant may allocate without end.
const memoryKiB = 4 << 20

// wait bounds the time of a test that waits for something that never comes.
const wait = 10 * time.Minute

// tryMutant compiles a package with one change, runs its tests and returns the CPU time that
// they used. A test that uses more of it than the limit noticed the change; other load on
// the machine does not count.
func (b bench) tryMutant(p pkg, m mutant, limit time.Duration) (fate, time.Duration, error) {
	binary := filepath.Join(b.dir, "test")
	os.Remove(binary)
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if m.file != "" {
		overlay, err := b.overlay(m)
		if err != nil {
			return 0, 0, err
		}
		args = append(args, "-overlay", overlay)
	}
	if err := exec.Command("go", append(args, p.ImportPath)...).Run(); err != nil {
		return notCompiled, 0, nil
	}
	if _, err := os.Stat(binary); err != nil {
		return 0, 0, errors.New(p.ImportPath + " has no tests")
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	run := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec "$@"`, memoryKiB,
		int(math.Ceil(limit.Seconds()))), "sh", binary, "-test.short", "-test.failfast")
	run.Dir = p.Dir
	run.WaitDelay = 10 * time.Second
	err := run.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, run.ProcessState.UserTime() + run.ProcessState.SystemTime(), nil
	case errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay):
		return killed, 0, nil
	}
	return 0, 0, err
}

// overlay writes the changed file and returns the overlay that puts it in place.
func (b bench) overlay(m mutant) (string, error) {
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(b.dir, "changed.go")
	if err := os.WriteFile(changed, m.applyTo(source), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(b.dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
