package images

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/image/partition"
	"bakeoff/provision/kernel"
)

// inspectSchema is the schema of what image inspect prints with --json.
const inspectSchema = "bakeoff/image-inspect/v1"

// The kinds of files that image inspect knows.
const (
	kindKernel  = "kernel"
	kindDisk    = "disk"
	kindRAMDisk = "ramdisk"
)

// inspection is what image inspect prints. One of Kernel, Disk and RAMDisk is set.
type inspection struct {
	Schema string `json:"schema"`
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	Kind   string `json:"kind"`

	Kernel *kernel.Info `json:"kernel,omitempty"`
	// Config and Modules are where the features of the kernel were looked up.
	Config  string           `json:"config,omitempty"`
	Modules string           `json:"modules,omitempty"`
	Lacks   []kernel.Lack    `json:"lacks_for_microvm,omitempty"`
	Disk    *partition.Table `json:"disk,omitempty"`
	RAMDisk *kernel.RAMDisk  `json:"ramdisk,omitempty"`
}

func (a *commands) imageInspect() *cobra.Command {
	var asJSON bool
	var config, modules string
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a kernel, a disk or a RAM disk is, and what it lacks",
		Long: `inspect identifies a kernel, a disk or a RAM disk. It reads the contents of the file
and ignores its name.

For a kernel, it shows the format, the system, the version, the ways in which a hypervisor
can start it, and the longest command line. It unpacks the ELF kernel in a bzImage, and
reads the ELF note with the PVH entry point. Then it lists what the kernel lacks for the
machine microvm of QEMU, with a remedy. For this list, inspect needs the configuration or
the modules of a Linux kernel. It looks for config-VERSION next to the kernel, for the
configuration in the kernel (CONFIG_IKCONFIG), and for lib/modules/VERSION in the folder of
the kernel and in its parent folder. If none of these says whether the kernel has a feature,
inspect shows the feature as unknown.

For a disk, it shows the partitions with their attributes, and which partition is the root.
For an initial RAM disk, it shows the archives in it, and whether they contain /init.`,
		Example: `  bakeoff image inspect /boot/vmlinuz-6.1.0-56-cloud-amd64
  bakeoff image inspect vmlinux --config .config
  bakeoff image inspect disk.raw --json | jq .disk.partitions`,
		Args: cli.Between(1, 1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			in, err := inspect(args[0], config, modules)
			if err != nil {
				return fault.Op(args[0], err)
			}
			if asJSON {
				return a.PrintJSON(in)
			}
			a.printInspection(in)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&config, "config", "", "`file` with the configuration of the kernel")
	c.Flags().StringVar(&modules, "modules", "", "`folder` lib/modules/VERSION, or the folder that contains lib")
	return c
}

// inspect reads the file name. It decides by the bytes what it is.
func inspect(name, config, modules string) (in inspection, err error) {
	in = inspection{Schema: inspectSchema, File: name}
	f, err := cli.OpenFile(name)
	if err != nil {
		return in, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return in, err
	}
	in.Bytes = info.Size()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return in, err
	}
	head = head[:n]
	if !kernel.Recognized(head) {
		if qcow2, err := partition.QCOW2(head); qcow2 || err != nil {
			return in, cmp.Or(err, fault.WithFix(fault.New(fault.Invalid, "this is a qcow2 disk; inspect reads raw disks"),
				"convert it: qemu-img convert -O raw FILE FILE.raw"))
		}
		disk, err := partition.Describe(f, in.Bytes, runtime.GOARCH)
		if err == nil {
			in.Kind, in.Disk = kindDisk, &disk
		}
		if !fault.Is(err, fault.NotFound) {
			return in, err
		}
	}
	how := kernel.Compression(head)
	unpack := "unpack it, and inspect the unpacked file"
	if in.Bytes > kernel.MaxImage && how != "" {
		return in, fault.WithFix(fault.New(fault.Invalid, "the file is compressed with %s and too large for a kernel (%s)",
			how, unit.Bytes(in.Bytes)), unpack)
	}
	if in.Bytes > kernel.MaxImage {
		return in, fault.WithFix(fault.New(fault.Invalid, "the file is too large for a kernel (%s), and it has no "+
			"partition table", unit.Bytes(in.Bytes)), "name a kernel, a raw disk or an initial RAM disk")
	}
	data := make([]byte, in.Bytes)
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return in, err
	}
	// A RAM disk can be compressed, as a kernel can.
	_, inner, err := kernel.Decompress(data)
	if err == nil && kernel.IsRAMDisk(inner) {
		d, err := kernel.InspectRAMDisk(data)
		in.Kind, in.RAMDisk = kindRAMDisk, &d
		return in, err
	}
	if err == nil && how != "" && !kernel.Recognized(inner) {
		_, derr := partition.Describe(bytes.NewReader(inner), int64(len(inner)), runtime.GOARCH)
		if isQCOW2, _ := partition.QCOW2(inner); isQCOW2 || !fault.Is(derr, fault.NotFound) {
			return in, fault.WithFix(fault.New(fault.Invalid, "the file is a disk, compressed with %s", how), unpack)
		}
	}
	return in, in.readKernel(data, config, modules)
}

// readKernel reads a kernel, and what lies beside it.
func (in *inspection) readKernel(data []byte, config, modules string) error {
	k, err := kernel.Inspect(data)
	if err != nil {
		return err
	}
	b, closing, err := in.findBeside(k.Version, config, modules)
	defer closing()
	if err != nil {
		return err
	}
	if err := k.Learn(b); err != nil {
		return err
	}
	in.Kind, in.Kernel, in.Lacks = kindKernel, &k, k.Lacks()
	return nil
}

// maxConfigFile bounds the configuration of a kernel, in bytes.
const maxConfigFile = 4 << 20

// findBeside finds the configuration and the modules of a kernel: those that are named, or
// those that lie where distributions put them. closing closes what is open.
func (in *inspection) findBeside(version, config, modules string) (b kernel.Beside, closing func(), err error) {
	closing = func() {}
	dir := filepath.Dir(in.File)
	// The version is from the kernel, and it becomes part of a path.
	if version != filepath.Base(version) || !filepath.IsLocal(version) {
		version = ""
	}
	named := config != ""
	if !named && version != "" {
		config = filepath.Join(dir, "config-"+version)
	}
	if config != "" {
		if b.Config, err = readConfig(config); err == nil {
			in.Config = config
		} else if named || !fault.Is(err, fault.NotFound) {
			return b, closing, fault.Op(config, err)
		}
	}
	candidates := []string{filepath.Join(dir, "lib/modules", version), filepath.Join(dir, "../lib/modules", version)}
	if named = modules != ""; named {
		candidates = []string{filepath.Join(modules, "lib/modules", version), modules}
	} else if version == "" {
		return b, closing, nil
	}
	for _, c := range candidates {
		if _, err := os.Stat(filepath.Join(c, "modules.builtin")); err != nil {
			continue
		}
		root, err := os.OpenRoot(c) // a link in it cannot lead out of it
		if err != nil {
			return b, closing, err
		}
		b.Modules, in.Modules = root.FS(), filepath.Clean(c)
		return b, func() { root.Close() }, nil
	}
	if named {
		return b, closing, fault.WithFix(fault.New(fault.Invalid, "%s contains no modules of the kernel %s", modules,
			safetext.Line(version)), "name the folder lib/modules/VERSION, or the one that contains lib")
	}
	return b, closing, nil
}

func readConfig(name string) ([]byte, error) {
	f, err := cli.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfigFile+1))
}

func (a *commands) printInspection(in inspection) {
	switch in.Kind {
	case kindKernel:
		a.printKernel(in)
	case kindDisk:
		a.printDisk(in)
	case kindRAMDisk:
		a.printRAMDisk(in)
	}
}

// bytesText is a size for eyes.
func bytesText(n int64) string { return unit.Format(float64(n), "B") }

func (a *commands) printKernel(in inspection) {
	k := in.Kernel
	a.Nameplate(safetext.Line(filepath.Base(in.File)), safetext.Line(kernelSummary(k)))
	t := cli.NewTable("", "")
	t.Row("size", bytesText(in.Bytes))
	t.Row("banner", safetext.Line(k.Banner))
	t.Row("compressed with", k.Compression)
	if k.BootProtocol != "" {
		t.Row("boot protocol", k.BootProtocol)
	}
	if k.CommandLineBytes > 0 {
		t.Row("command line", fmt.Sprintf("at most %d bytes", k.CommandLineBytes))
	}
	t.Row("can be started by", strings.Join(k.Boots, ", "))
	if p := k.Packed; p != nil {
		text := p.Compression + ", " + bytesText(p.Bytes) + ", unpacked " + bytesText(p.UnpackedBytes)
		if p.Error != "" {
			text = "cannot be unpacked: " + safetext.Line(p.Error)
		}
		t.Row("ELF kernel in it", text)
	}
	if e := k.ELF; e != nil {
		t.Row("ELF", fmt.Sprintf("%d bits, %s, entry %#x", e.Bits, e.Machine, e.Entry))
		if e.PVHEntry != nil {
			t.Row("PVH entry", fmt.Sprintf("%#x", *e.PVHEntry))
		} else {
			t.Row("PVH entry", "none")
		}
	}
	t.Row("configuration", safetext.Line(in.Config))
	t.Row("modules", safetext.Line(in.Modules))
	a.PrintBody(t)
	if len(k.Features) > 0 {
		a.Heading("Features")
		t := cli.NewTable("OPTION", "STATE", "KNOWN FROM", "FOR")
		for _, f := range k.Features {
			t.Add(cli.Plain(f.Name), featureCell(f.State), cli.Plain(cmp.Or(f.Source, "-")), cli.Plain(f.What))
		}
		a.Print(t)
	}
	a.Heading("For the machine microvm")
	if len(in.Lacks) == 0 {
		a.Paragraph(cli.Green, "the kernel has everything that it needs")
	}
	for _, l := range in.Lacks {
		color := cli.Yellow
		if l.State == kernel.Missing {
			color = cli.Red
		}
		a.Paragraph(color, l.Name+" ("+string(l.State)+"): "+l.Effect)
		a.Paragraph("", "  "+l.Fix)
	}
}

func kernelSummary(k *kernel.Info) string {
	name := map[string]string{kernel.Linux: "Linux", kernel.NetBSD: "NetBSD", kernel.FreeBSD: "FreeBSD",
		kernel.OpenBSD: "OpenBSD"}[k.System]
	text := strings.TrimSpace(cmp.Or(name, "a kernel of an unknown system") + " " + k.Version)
	if k.Arch != "" {
		text += " for " + k.Arch
	}
	return text + ", " + k.Format
}

func featureCell(s kernel.State) cli.Cell {
	switch s {
	case kernel.Missing:
		return cli.Colored(string(s), cli.Red)
	case kernel.Unknown:
		return cli.Colored(string(s), cli.Yellow)
	}
	return cli.Colored(string(s), cli.Green)
}

func (a *commands) printDisk(in inspection) {
	d := in.Disk
	what := "a disk with " + cmp.Or(d.Kind, "the file system "+d.FileSystem)
	a.Nameplate(safetext.Line(filepath.Base(in.File)), what+", "+bytesText(in.Bytes))
	if len(d.Entries) > 0 {
		t := cli.NewTable("NUMBER", "SIZE", "FILE SYSTEM", "ATTRIBUTES", "TYPE", "NAME")
		for _, e := range d.Entries {
			t.Row(fmt.Sprint(e.Number), bytesText(e.Size), cmp.Or(e.FileSystem, "-"),
				cmp.Or(strings.Join(e.Attributes, ","), "-"), cmp.Or(e.TypeName, e.Type), safetext.Line(e.Name))
		}
		a.Print(t)
		fmt.Fprintln(a.Out)
	}
	if d.Boot != nil {
		a.Paragraph("", fmt.Sprintf("the attributes choose partition %d", *d.Boot))
	}
	switch {
	case d.Root == nil:
		a.Paragraph(cli.Red, "no root for Linux: "+safetext.Line(d.RootError))
	case *d.Root == 0:
		a.Paragraph(cli.Green, "the root for Linux is the whole disk")
	default:
		a.Paragraph(cli.Green, fmt.Sprintf("the root for Linux is partition %d", *d.Root))
	}
}

func (a *commands) printRAMDisk(in inspection) {
	d := in.RAMDisk
	a.Nameplate(safetext.Line(filepath.Base(in.File)), "an initial RAM disk, "+bytesText(in.Bytes))
	t := cli.NewTable("ARCHIVE", "COMPRESSION", "SIZE", "UNPACKED", "FILES")
	for i, r := range d.Archives {
		t.Row(fmt.Sprint(i+1), cmp.Or(r.Compression, "none"), bytesText(r.Bytes), bytesText(r.UnpackedBytes),
			fmt.Sprint(r.Files))
	}
	a.Print(t)
	fmt.Fprintln(a.Out)
	a.Paragraph("", fmt.Sprintf("%d kernel modules", d.Modules))
	if d.Init {
		a.Paragraph(cli.Green, "/init is there")
	} else {
		a.Paragraph(cli.Red, "/init is missing: the kernel mounts a root instead; add /init, or name a root on the "+
			"command line")
	}
}
