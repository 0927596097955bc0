package compression

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/corpus"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "compression",
		Params: []param.Spec{
			{Name: "files", Kind: param.Int, Default: "1000", Min: 1, Max: 10 * corpus.Files,
				Doc: "number of messages to generate; 273273 is the number in the published archive"},
			{Name: "seed", Kind: param.Int, Default: "1", Doc: "seed of the messages"},
			{Name: "folder", Kind: param.Text, Doc: "absolute path of a folder in the environment, to copy instead " +
				"of messages"},
			{Name: "writers", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "number of concurrent writers"},
			{Name: "overlap", Kind: param.Bool, Default: "false", Doc: "whether writers copy the same files. true: " +
				"every writer copies all files, and every second writer starts at the end, so that writers " +
				"overwrite each other's files. false: one writer copies each file"},
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume to copy to"},
		},
		Prepare: prepare,
		Reset:   resetCopy,
		Run:     runCopy,
	}
}

// sourceFolder is the folder to copy.
func sourceFolder(p param.Values, env loop.Env) (string, error) {
	if f := p.Text("folder"); f != "" {
		if !path.IsAbs(f) {
			return "", fault.New(fault.Invalid, "folder must be an absolute path (got %s)", f)
		}
		return f, nil
	}
	if env.Scratch == "" {
		return "", fault.New(fault.Invalid, "compression requires a scratch directory; set --hash-file")
	}
	return filepath.Join(env.Scratch, fmt.Sprintf("mail-%d-%d", p.Int("files"), p.Int("seed"))), nil
}

func prepare(ctx context.Context, p param.Values, env loop.Env) error {
	from, err := sourceFolder(p, env)
	if err != nil {
		return err
	}
	if p.Text("folder") != "" { // check it once, not in every trial
		_, _, err := listFiles(ctx, from)
		return readable(from, err)
	}
	return corpus.Mail{Files: int(p.Int("files")), Seed: uint64(p.Int("seed"))}.Write(ctx, from)
}

// readable explains an error of reading the folder.
func readable(folder string, err error) error {
	if err == nil || fault.Is(err, fault.Invalid) {
		return err
	}
	return fault.WithFix(fault.New(fault.Invalid, "cannot copy folder %s in the environment: %w", folder, err),
		"set folder to an absolute path that every contender can read, or remove it to copy generated messages")
}

func resetCopy(_ context.Context, _ param.Values, env loop.Env) error {
	if env.Dir == "" {
		return fault.New(fault.Invalid, "compression requires a directory; set --dir")
	}
	return os.RemoveAll(env.Dir)
}

// listFiles returns the regular files below dir, ordered by name, and their total
// size.
func listFiles(ctx context.Context, dir string) (names []string, size int64, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		names = append(names, name)
		size += info.Size()
		return nil
	})
	if err == nil && size == 0 {
		err = fault.New(fault.Invalid, "%s has no files, or only empty files", dir)
	}
	return names, size, err
}

func runCopy(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	from, err := sourceFolder(p, env)
	if err != nil {
		return wire.Result{}, err
	}
	names, size, err := listFiles(ctx, from)
	if err != nil {
		return wire.Result{}, err
	}
	if err := os.MkdirAll(env.Dir, 0o755); err != nil {
		return wire.Result{}, err
	}
	writers := int(p.Int("writers"))
	work := size
	if p.Bool("overlap") {
		work *= int64(writers)
	}
	start := time.Now()
	// The clock stops when all writers have ended and syncfs has returned.
	if err := copyAll(ctx, shareFiles(names, writers, p.Bool("overlap")), from, env.Dir); err != nil {
		return wire.Result{}, err
	}
	if err := syncFS(ctx, env.Dir); err != nil {
		return wire.Result{}, fmt.Errorf("sync: %w", err)
	}
	elapsed := time.Since(start)
	if err := compare(ctx, names, from, env.Dir); err != nil {
		return wire.Result{}, err
	}
	return wire.Result{
		Values:    []sample.Value{{Metric: "copy", Unit: "s", Value: elapsed.Seconds()}},
		Work:      float64(work),
		WorkUnit:  "B",
		ElapsedNS: elapsed.Nanoseconds(),
		Check: wire.Check{Answer: fmt.Sprintf("%d files of %d bytes are what was copied", len(names), size),
			Verified: true},
	}, nil
}

// shareFiles assigns files to writers.
func shareFiles(names []string, writers int, overlap bool) [][]string {
	out := make([][]string, writers)
	for k := range out {
		for i := range names {
			switch {
			case !overlap && i%writers == k, overlap && k%2 == 0:
				out[k] = append(out[k], names[i])
			case overlap:
				out[k] = append(out[k], names[len(names)-1-i])
			}
		}
	}
	return out
}

// copyAll copies with one goroutine per share and waits for all of them.
func copyAll(ctx context.Context, shares [][]string, from, to string) error {
	errs := make([]error, len(shares))
	var wg sync.WaitGroup
	for k, names := range shares {
		wg.Go(func() {
			made := map[string]bool{}
			for _, name := range names {
				if dir := path.Dir(name); !made[dir] {
					made[dir] = true
					errs[k] = os.MkdirAll(filepath.Join(to, dir), 0o755)
				}
				if errs[k] == nil {
					errs[k] = copyFile(filepath.Join(from, name), filepath.Join(to, name))
				}
				if errs[k] = errors.Join(errs[k], ctx.Err()); errs[k] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// compare compares every copy with its original.
func compare(ctx context.Context, names []string, from, to string) error {
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return loop.Mismatch("the copy of "+name, "another", "what was copied")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
