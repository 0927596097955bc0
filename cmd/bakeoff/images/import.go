package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/image"
	"bakeoff/provision/image/unpack"
)

// bar shows how much of a download is there.
type bar struct {
	a     *commands
	began time.Time
	from  int64
	what  string
	shown bool
}

// cells of the bar, and the time between two lines if the output is not a terminal.
const (
	barCells = 30
	barLine  = 10 * time.Second
)

// countTo shows the bar on a terminal; elsewhere it prints a line at times.
func (b *bar) countTo(what string, done, all int64) {
	now := time.Now()
	if what != b.what {
		b.endLine()
		b.what, b.began, b.from = what, now, done
	}
	text := fmt.Sprintf("%s %s of %s", safetext.Line(what), cli.Mebibytes(done), cli.Mebibytes(all))
	if !b.a.Terminal(b.a.Err) {
		if now.Sub(b.began) > barLine {
			b.began = now
			fmt.Fprintln(b.a.Err, text)
		}
		return
	}
	full := 0
	if all > 0 {
		full = int(min(done, all) * barCells / all)
	}
	rate := ""
	if passed := now.Sub(b.began).Seconds(); passed > 0.5 {
		rate = fmt.Sprintf(" %s/s", cli.Mebibytes(int64(float64(done-b.from)/passed)))
	}
	fmt.Fprintf(
		b.a.Err,
		"\r\x1b[K[%s%s] %s%s",
		strings.Repeat("=", full),
		strings.Repeat(" ", barCells-full),
		text,
		rate,
	)
	b.shown = true
}

// endLine ends the line of the bar.
func (b *bar) endLine() {
	if b.shown {
		fmt.Fprintln(b.a.Err)
		b.shown = false
	}
}

// busyStore is the store, which shows what it downloads; end ends what it shows.
func (a *commands) busyStore() (s *image.Store, end func()) {
	b := &bar{a: a}
	s = a.at.Images(func(text string) {
		b.endLine()
		fmt.Fprintln(a.Err, safetext.Line(text))
	})
	s.Count = b.countTo
	return s, b.endLine
}

// longTask calls do until it ends or a signal comes.
func (a *commands) longTask(c *cobra.Command, do func(ctx context.Context, s *image.Store) error) error {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	s, end := a.busyStore()
	err := do(ctx, s)
	end()
	if stopped := cli.Interrupted(ctx, "run the command again: what was downloaded is kept"); stopped != nil {
		return stopped
	}
	return err
}

// printStored prints an image that was stored.
func (a *commands) printStored(h image.Stored, asJSON bool) error {
	if asJSON {
		return a.PrintJSON(map[string]any{"schema": imageSchema, "images": []image.Stored{h}})
	}
	fmt.Fprintf(a.Out, "stored %s (%s, %s)\n", safetext.Line(h.Ref), h.ID, cli.Mebibytes(h.Size))
	return nil
}

func (a *commands) imagePush() *cobra.Command {
	return &cobra.Command{
		Use:   "push IMAGE HOST/NAME:TAG",
		Short: "Send an image to a registry",
		Long: `push sends an image to a registry; the digest of the image stays the same. push sends only
the layers that the registry lacks. It uses the credentials of docker login and podman
login.`,
		Example: "  bakeoff image push store:app:1 registry.example/team/app:1",
		Args:    cli.Between(2, 2, "IMAGE and HOST/NAME:TAG"),
		RunE: func(c *cobra.Command, args []string) error {
			_, h, err := a.heldImage(args[0])
			if err != nil {
				return err
			}
			err = a.longTask(c, func(ctx context.Context, s *image.Store) error { return s.Push(ctx, h, args[1]) })
			if err == nil {
				fmt.Fprintf(a.Out, "pushed %s to %s@%s\n", safetext.Line(h.Ref), args[1], h.Digest)
			}
			return err
		},
	}
}

func (a *commands) imageCreate() *cobra.Command {
	var m image.Stored
	var origin string
	var program, env []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "create FOLDER|FILE NAME:VERSION",
		Short: "Make an image from a folder or a tar file",
		Long: `create reads a root file system from a folder or a tar file, and stores it as the image
store:NAME:VERSION. The tar file may be compressed with gzip, xz, zstd or bzip2. With
--origin, the files become a layer on top of another image. Equal files give equal images.`,
		Example: `  bakeoff image create ./root app:1 --cmd /app
  bakeoff image create ./changes app:2 --origin store:app:1`,
		Args: cli.Between(2, 2, "FOLDER|FILE and NAME:VERSION"),
		RunE: func(c *cobra.Command, args []string) error {
			var ok bool
			if m.Name, m.Version, ok = strings.Cut(strings.TrimPrefix(args[1], "store:"), ":"); !ok {
				return cli.Usage(c, fault.New(fault.Invalid, "%q has no version: write NAME:VERSION", args[1]))
			}
			l, err := layerOf(args[0])
			if err != nil {
				return err
			}
			m.Config = map[string]any{}
			if origin != "" {
				_, h, err := a.heldImage(origin)
				if err != nil {
					return err
				}
				m.Origin, m.OriginName = h.Digest, h.Ref
			}
			if len(program) > 0 {
				m.Config["Cmd"], m.Config["Entrypoint"] = program, nil
			}
			if len(env) > 0 {
				m.Config["Env"] = env
			}
			return a.longTask(c, func(ctx context.Context, s *image.Store) error {
				h, err := s.Make(ctx, m, []unpack.Layer{l})
				if err != nil {
					return err
				}
				return a.printStored(h, asJSON)
			})
		},
	}
	fl := c.Flags()
	fl.StringVarP(&origin, "origin", "i", "", "the IMAGE to which create adds the files")
	fl.StringVar(&m.Description, "description", "", "what the image is, in a sentence")
	fl.StringVar(&m.OS, "os", "", "the operating system of the image; by default linux, or the system of the origin")
	fl.StringVar(&m.Arch, "arch", "",
		"the processor architecture of the image, such as amd64 or arm64; by default that of this machine")
	fl.StringArrayVar(
		&program,
		"cmd",
		nil,
		"the program that the image starts; repeat the flag for each argument of the program",
	)
	fl.StringArrayVar(&env, "env", nil, "an environment variable NAME=VALUE for the programs of the image")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// layerOf is a folder or a tar file as a layer.
func layerOf(name string) (unpack.Layer, error) {
	info, err := os.Stat(name)
	if err != nil {
		return unpack.Layer{}, fault.Wrap(fault.NotFound, "", err)
	}
	l := unpack.Layer{Name: name, Size: info.Size(), Plain: true,
		Open: func() (io.ReadCloser, error) { return os.Open(name) }}
	switch {
	case info.IsDir():
		l.Size, l.Open = -1, func() (io.ReadCloser, error) { return unpack.Folder(name), nil }
	case !info.Mode().IsRegular():
		return l, fault.WithFix(fault.New(fault.Invalid, "%s is neither a file nor a folder", name),
			"name a folder or a tar file")
	}
	return l, nil
}

func (a *commands) imageImport() *cobra.Command {
	var asJSON bool
	var from, disk string
	c := &cobra.Command{
		Use:   "import IMAGE",
		Short: "Import an image from a registry, a source or an archive into the store",
		Long: `import downloads an image, verifies all of its digests, and unpacks the layers once. It
therefore refuses every image that a run would refuse. It continues a download that was
interrupted.

IMAGE is NAME:TAG of a registry, oci:DIR[:TAG], oci-archive:FILE[:TAG] or
docker-archive:FILE. With --source, IMAGE is the ID that "image avail" shows. A UUID needs no
--source. The origins of an image are imported, too.

--disk writes the disk of a virtual machine to a raw FILE. The machine on which import runs
does not need ZFS. With --disk, IMAGE is an image whose file at the source is the ZFS stream
of a volume, or IMAGE is a file with such a stream. The stream may be compressed. A lab file
names the disk with image: disk:FILE.`,
		Example: `  bakeoff image import alpine:3.20
  bakeoff image import --source alpine alpine-minirootfs:3.22.0
  bakeoff image import oci-archive:app.tar
  bakeoff image import 2b683a82-a066-11e3-97ab-2faa44701c5a --disk debian.raw`,
		Args: cli.Between(1, 1, "IMAGE"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.longTask(c, func(ctx context.Context, s *image.Store) error {
				var h image.Stored
				var err error
				if disk != "" {
					return a.writeDisk(ctx, s, from, args[0], disk, asJSON)
				}
				if from != "" || name.ValidUUID(strings.ToLower(args[0])) {
					h, err = a.importNamed(ctx, s, from, args[0])
				} else {
					h, err = s.Import(ctx, args[0])
				}
				if err != nil {
					return err
				}
				return a.printStored(h, asJSON)
			})
		},
	}
	c.Flags().StringVarP(&from, "source", "S", "", "the name of the source that has the image")
	c.Flags().StringVar(&disk, "disk", "", "write the volume of the image to this new file, as a raw disk")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// diskSchema is the schema of what image import prints with --disk and --json.
const diskSchema = "bakeoff/image-disk/v1"

// writeDisk writes a volume to a raw disk, and prints what it is.
func (a *commands) writeDisk(ctx context.Context, s *image.Store, from, id, disk string, asJSON bool) error {
	v, err := a.importDisk(ctx, s, from, id, disk)
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(map[string]any{"schema": diskSchema, "disk": disk, "snapshot": v.Name, "size_bytes": v.Size,
			"data_bytes": v.Written})
	}
	fmt.Fprintf(a.Out, "wrote %s, the disk of %s (%s, %s of data)\n", safetext.Line(disk), safetext.Line(v.Name),
		cli.Mebibytes(v.Size), cli.Mebibytes(v.Written))
	return nil
}
