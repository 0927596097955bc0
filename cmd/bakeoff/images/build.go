package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/measure/webroot"
	"bakeoff/provision/files"
	"bakeoff/provision/image"
	"bakeoff/provision/service"
	"bakeoff/provision/service/build"
)

// imageBuildSchema is the schema of what image build prints with --json.
const imageBuildSchema = "bakeoff/image-build/v1"

// imageBuilder is bakeoff image build.
type imageBuilder struct {
	*commands
	arguments []string
	output    string
	only      string
	fresh     bool
	asJSON    bool
	telling   sync.Mutex
}

func (a *commands) imageBuild() *cobra.Command {
	b := &imageBuilder{commands: a}
	c := &cobra.Command{
		Use:   "build DIR...",
		Short: "Build an image, a RAM disk and a disk from the definition of a service",
		Long: `build reads service.yaml or a Containerfile in each folder, and makes from it:

  an OCI image    in the store, with the name store:NAME:latest
  a RAM disk      with the whole service, for a microVM without a disk
  a disk          with a GPT, whose root partition has the attribute BOOTME
  a boot RAM disk that boots this disk

Equal definitions give equal bytes. Several services are built at the same time. The store
keeps the products. build makes the products again only if the definition, one of its files,
its base image, the kernel or bakeoff-agent changes. Steps of a build have no network unless
the definition asks for a network.

With --output, build copies these files to a folder: NAME.oci.tar, NAME.ram, NAME.disk,
NAME.boot and NAME.kernel.

With --only, build makes and copies one product: image is NAME.oci.tar, ram is NAME.ram with
NAME.kernel, and disk is NAME.disk. build needs no kernel to make only an image or only a
disk. In each case, build also stores the image.`,
		Example: `  sudo bakeoff image build services/web
  sudo bakeoff image build services/* --output out
  sudo bakeoff image build services/web --only image
  skopeo copy oci-archive:out/web.oci.tar docker://registry.example/web:1`,
		Args: cli.Between(1, 100, "a folder"),
		RunE: b.buildImages,
	}
	c.Flags().StringArrayVar(&b.arguments, "arg", nil,
		"value of an ARG of the Containerfile, as NAME=VALUE; may be repeated")
	c.Flags().StringVarP(&b.output, "output", "o", "", "copy the products to this folder")
	c.Flags().StringVar(&b.only, "only", "", "make only this `product`: "+strings.Join(build.Products, ", "))
	cli.CompleteFlag(c, "only", func([]string) []string { return build.Products })
	c.Flags().BoolVar(&b.fresh, "fresh", false, "build again, even if the cache has the result")
	c.Flags().BoolVar(&b.asJSON, "json", false, "print one JSON object")
	return c
}

func (b *imageBuilder) buildImages(c *cobra.Command, dirs []string) error {
	arguments := map[string]string{}
	for _, text := range b.arguments {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return cli.Usage(c, fault.New(fault.Invalid, "--arg must be NAME=VALUE (got %q)", text))
		}
		arguments[name] = value
	}
	if b.only != "" && !slices.Contains(build.Products, b.only) {
		return cli.Usage(c, fmt.Errorf("--only must be %s (got %q)", yamltree.OneOf(build.Products), b.only))
	}
	definitions, err := loadDefinitions(dirs, arguments)
	if err != nil {
		return err
	}
	agent, err := b.at.Agent()
	if err != nil {
		return err
	}
	// A signal ends the builds, which remove what they made, and is reported.
	ctx, stop := b.Interruptible(c.Context())
	defer stop()
	results, took, err := b.buildAll(ctx, dirs, definitions, agent)
	if stopped := cli.Interrupted(ctx, "run the command again: finished downloads are kept"); stopped != nil {
		return stopped
	}
	if err != nil {
		return err
	}
	if b.asJSON {
		return b.PrintJSON(map[string]any{"schema": imageBuildSchema, "services": results})
	}
	b.printResults(results, took)
	return nil
}

// buildAll builds services at the same time, and copies them to the folder of --output.
func (b *imageBuilder) buildAll(ctx context.Context, dirs []string, definitions []*service.Definition,
	agent string) ([]build.Result, []time.Duration, error) {
	results, took, errs := make([]build.Result, len(dirs)), make([]time.Duration, len(dirs)), make([]error, len(dirs))
	var wg sync.WaitGroup
	for i, d := range definitions {
		wg.Go(func() {
			start := time.Now()
			results[i], errs[i] = build.Build(ctx, b.at.Images(b.printLine), d,
				build.Options{Dir: dirs[i], Agent: agent, Materials: webroot.Materials(), Only: b.only, Fresh: b.fresh,
					Say: b.printLine})
			took[i] = time.Since(start)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	if b.output != "" {
		for i := range results {
			if err := b.copyOut(ctx, b.at.Images(b.printLine), &results[i]); err != nil {
				return nil, nil, fault.Op("copy to "+b.output, err)
			}
		}
	}
	return results, took, nil
}

// loadDefinitions reads the definitions. Their names are different.
func loadDefinitions(dirs []string, arguments map[string]string) ([]*service.Definition, error) {
	var out []*service.Definition
	var errs []error
	names := map[string]string{}
	for _, dir := range dirs {
		d, err := service.Load(dir, arguments)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if other, ok := names[d.Name]; ok {
			errs = append(errs, fault.WithFix(fault.New(fault.Invalid, "the definitions %s and %s have the same "+
				"name %q", other, dir, d.Name),
				"change name: in one of the two"))
		}
		names[d.Name] = dir
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// printLine prints a line of one of the builds.
func (b *imageBuilder) printLine(text string) {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.NoteProgress(text)
}

func (b *imageBuilder) printResults(results []build.Result, took []time.Duration) {
	for i, r := range results {
		how := "built in " + took[i].Round(100*time.Millisecond).String()
		if !r.Built {
			how = "the store had it"
		}
		fmt.Fprintf(b.Out, "%s  %s  (%s)\n", r.Image, r.Digest, how)
		t := cli.NewTable("  FILE", "SIZE", "DIGEST", "PATH")
		filled := false
		for _, f := range []struct {
			name string
			file build.File
		}{{"RAM disk", r.RAM}, {"disk", r.Disk}, {"boot", r.Boot}, {"kernel", r.Kernel}} {
			if f.file.Path != "" {
				t.Row("  "+f.name, cli.FileSize(f.file.Size), files.Short(f.file.Digest), f.file.Path)
				filled = true
			}
		}
		if filled {
			b.Print(t)
		}
	}
}

// outputLock is the lock of the commands that copy to a folder.
const outputLock = "output.lock"

// copyOut copies what was built to the folder of --output, and names the copies.
func (b *imageBuilder) copyOut(ctx context.Context, store *image.Store, r *build.Result) error {
	if err := os.MkdirAll(b.output, 0o755); err != nil {
		return err
	}
	// Two builds at the same time do not mix their files. The lock is in the store, because
	// its file stays.
	held, err := lock.Wait(ctx, filepath.Join(store.Dir, outputLock))
	if err != nil {
		return err
	}
	defer held.Release()
	at := func(suffix string) string { return filepath.Join(b.output, r.Name+"."+suffix) }
	if b.only == "" || b.only == build.Image {
		err = cli.ReplaceFile(at("oci.tar"), func(w io.Writer) error { return build.Archive(store.Layout(), *r, w) })
	}
	for _, f := range []struct {
		suffix string
		file   *build.File
	}{{"ram", &r.RAM}, {"disk", &r.Disk}, {"boot", &r.Boot}, {"kernel", &r.Kernel}} {
		if err != nil {
			return err
		}
		if f.file.Path == "" {
			continue
		}
		err = cli.ReplaceFile(at(f.suffix), func(w io.Writer) error {
			from, err := os.Open(f.file.Path)
			if err != nil {
				return err
			}
			defer from.Close()
			_, err = io.Copy(w, from)
			return err
		})
		f.file.Path = at(f.suffix)
	}
	return err
}
