package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/format"
	formats "bakeoff/judge/format/all"
	"bakeoff/measure/boot"
	bootall "bakeoff/measure/boot/all"
)

// sourceRecording is the name of recordings that bakeoff wrote.
const sourceRecording = "recording"

// sourceNames are the values of --source.
func sourceNames() []string {
	names := lists.Map(bootall.Sources(), func(s boot.Source) string { return s.Doc().Name })
	return append(names, sourceRecording)
}

// sourceLines lists the sources for the help.
func sourceLines() string {
	lines := lists.Map(bootall.Sources(), func(s boot.Source) string {
		return fmt.Sprintf("  %-10s %s\n  %-10s   %s", s.Doc().Name, s.Doc().Reads, "", s.Doc().Get)
	})
	return strings.Join(append(lines, fmt.Sprintf("  %-10s %s", sourceRecording, "a recording that bakeoff wrote")), "\n")
}

// SourceFlag gives a command the flag --source.
func SourceFlag(c *cobra.Command, value *string) {
	c.Flags().StringVar(value, "source", "", "`name` of the source of FILE: "+strings.Join(sourceNames(), ", ")+
		" (default: bakeoff recognizes the source)")
	cli.CompleteFlag(c, "source", func([]string) []string { return sourceNames() })
}

// ReadBoot reads a recording from a file, from in if path is "-", or from a run folder.
func ReadBoot(in io.Reader, path string, choice BootChoice) (bootmodel.Recording, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return choice.ofRun(path)
	}
	if choice.Contender != "" || choice.Number != 0 {
		return bootmodel.Recording{}, fault.New(fault.Invalid, "--contender and --boot can be used only with "+
			"runs, and %s is a file", path)
	}
	source := choice.Source
	name, data, err := readBootFile(in, path)
	if err != nil {
		return bootmodel.Recording{}, err
	}
	if bytes.HasPrefix(data, gzipMagic) {
		in, err := unpacked(bytes.NewReader(data), name)
		if err == nil {
			data, err = io.ReadAll(in)
		}
		if err != nil {
			return bootmodel.Recording{}, err
		}
	}
	if err := refuseArchive(name, data); err != nil {
		return bootmodel.Recording{}, err
	}
	data = labeled.Clean(data)
	if source == sourceRecording || source == "" && boot.IsRecording(data[:min(len(data), boot.HeadBytes)]) {
		r, err := boot.Parse(name, data)
		return bootmodel.Clip(r), err
	}
	s, err := bootSource(name, source, data)
	if err != nil {
		return bootmodel.Recording{}, err
	}
	r, err := s.Read(name, data)
	return bootmodel.Clip(r), err
}

// bootSource finds the source of a file.
func bootSource(file, name string, data []byte) (boot.Source, error) {
	if name != "" {
		if s, ok := lists.Find(bootall.Sources(), func(s boot.Source) bool { return s.Doc().Name == name }); ok {
			return s, nil
		}
		return nil, fault.New(fault.Invalid, "--source must be one of %s (got %q)", strings.Join(sourceNames(), ", "), name)
	}
	if found := bootall.Recognize(data); len(found) > 0 {
		return found[0], nil // the most specific one
	}
	if kind, fix := otherKind(data); kind != "" {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s:1: this is %s, not a record of a boot", file, kind), fix)
	}
	return nil, fault.New(fault.Invalid, "%s:1: bakeoff does not recognize this as a record of a boot; --source names "+
		"its format: %s", file, strings.Join(sourceNames(), ", "))
}

// compressedFile is what a file of gzip, xz, zstd, bzip2 or zip begins with. Bytes that are
// not UTF-8 match U+FFFD.
const compressedFile = `^(\x1f\x{FFFD}\x08|\x{FFFD}7zXZ|\(\x{FFFD}/\x{FFFD}|BZh[1-9]1AY|PK\x03\x04)`

// otherKinds are files that people take for records of a boot, by what they begin with.
var otherKinds = []struct {
	is        string // a regular expression
	kind, fix string
}{
	{compressedFile, "a compressed file", "unpack it"},
	{`^\x7fELF|^MZ`, "a program or a kernel", "boot it: bakeoff boot record microvm --option kernel=FILE"},
	{`^(<\?xml[^>]*>\s*)?(<!DOCTYPE svg[^>]*>\s*)?<svg[\s\S]*systemd`,
		"the picture of systemd-analyze plot", propertiesOfSystemd},
	{`^\s*\[\s*\{\s*"name"\s*:\s*"[^"]+"\s*,\s*"activat(ed|ing)"`, "the JSON of systemd-analyze plot",
		propertiesOfSystemd},
	{`^(Startup finished in |The time (when|after the) unit |Bootup is not yet finished|Manager: systemd |` +
		`\s*([0-9]+(h|min) )*[0-9.]+[mu]?s [^ ]+\.(service|device|mount|automount|socket|target|swap|timer|path|slice|` +
		`scope)\r?\n)`, "an output of systemd-analyze", propertiesOfSystemd},
	{`^# tracer: `, "a trace of another tracer", "boot with ftrace=function_graph; see docs/special/boot.md"},
	{`^(CPU +ID|dtrace: )`, "an output of DTrace", "record debug.tslog; see docs/special/boot.md"},
	{`^version *= *bootchart|^#? ?[0-9]+\ncpu +[0-9]`, "a log of bootchart", "record the log of the " +
		"kernel; see docs/special/boot.md"},
	{`^\s*schema: *bakeoff/lab/`, "a lab file", "run it: bakeoff run FILE"},
	{`^\s*\{\s*"schema" *: *"bakeoff/`, "a file of bakeoff that holds no boot", "name the run folder"},
}

const propertiesOfSystemd = "read the properties that it is made of: (systemctl show; echo; systemctl show '*') > FILE"

// otherKind says what a file is that no source recognizes, and what to do; "" if nobody
// knows.
func otherKind(data []byte) (kind, fix string) {
	head := data[:min(len(data), boot.HeadBytes)]
	for _, o := range otherKinds {
		if lazy.Compile(o.is).Match(head) {
			return o.kind, o.fix
		}
	}
	if found := format.Recognize(formats.Formats(), head); len(found) > 0 {
		return "an output of " + found[0].Doc().Program, "use bakeoff analyse"
	}
	return "", ""
}

func readBootFile(in io.Reader, path string) (name string, data []byte, err error) {
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(in, boot.MaxBytes+1))
		return "standard input", data, fault.Wrap(fault.Lab, "read standard input", err)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, fault.New(fault.NotFound, "the recording %s does not exist", path)
	}
	if err != nil {
		return path, nil, fault.Wrap(fault.NotFound, "boot", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return path, nil, fault.Wrap(fault.Lab, "boot", err)
	}
	if size := info.Size(); size > 0 && size <= boot.MaxBytes {
		data = make([]byte, size)
		n, err := io.ReadFull(f, data)
		return path, data[:n], fault.Wrap(fault.Lab, "read "+path, err)
	}
	data, err = io.ReadAll(io.LimitReader(f, boot.MaxBytes+1))
	return path, data, fault.Wrap(fault.Lab, "read "+path, err)
}
