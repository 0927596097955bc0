package offline

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/gunzip"
	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
	formatall "bakeoff/judge/format/all"
	"bakeoff/judge/series"
)

// tableFormat is the name of bakeoff's own tables.
const tableFormat = "table"

// maxInputs bounds the files that one call of analyse reads.
const maxInputs = 1000

// formatNames are the values of --from.
func formatNames() []string {
	names := []string{tableFormat}
	for _, f := range formatall.Formats() {
		names = append(names, f.Doc().Name)
	}
	slices.Sort(names)
	return names
}

// labelNames are the labels that formats always have.
func labelNames() []string {
	names := []string{series.ByFile}
	for _, f := range formatall.Formats() {
		for _, l := range f.Doc().Labels {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// formatLines lists the formats for the help.
func formatLines() string {
	lines := []string{fmt.Sprintf("  %-11s %s", tableFormat, "CSV, TSV or NDJSON with the columns below")}
	for _, f := range formatall.Formats() {
		lines = append(lines, fmt.Sprintf("  %-11s %s", f.Doc().Name, f.Doc().Program))
	}
	return strings.Join(lines, "\n")
}

// input is a file to analyze.
type input struct {
	name string // as a contender
	path string
	in   *bufio.Reader
	file *os.File // nil for standard input
	ends *ends
}

type inputs []input

func (all inputs) closeAll() {
	for _, x := range all {
		if x.file != nil {
			x.file.Close()
		}
	}
}

// openInputs opens the files that args name: FILE, NAME=FILE or NAME=PATTERN, where FILE
// may be a folder of Criterion.rs.
func (a reader) openInputs(args []string) (all inputs, err error) {
	for _, arg := range args {
		name, paths, err := expandArgument(arg)
		if err != nil {
			return all, err
		}
		for _, path := range paths {
			if len(all) >= maxInputs {
				return all, fault.New(fault.Invalid, "the arguments name more than %d files; analyze fewer at once", maxInputs)
			}
			x, err := a.openInput(path)
			if err != nil {
				return all, err
			}
			x.name = name
			all = append(all, x)
		}
	}
	all.nameByFile()
	return all, nil
}

// expandArgument splits an argument into the name of a contender, "" for that of the file,
// and paths.
func expandArgument(arg string) (name string, paths []string, err error) {
	if _, err := os.Stat(arg); err == nil || arg == "-" {
		if samples := criterionSamples(arg); len(samples) > 0 {
			return arg, samples, nil
		}
		return "", []string{arg}, nil
	}
	name, pattern, ok := strings.Cut(arg, "=")
	if !ok || name == "" {
		return "", nil, fault.New(fault.NotFound, "%s does not exist", arg)
	}
	if samples := criterionSamples(pattern); len(samples) > 0 {
		return name, samples, nil
	}
	if _, err := os.Stat(pattern); err == nil || pattern == "-" {
		return name, []string{pattern}, nil
	}
	paths, err = filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		return "", nil, fault.New(fault.NotFound, "%s: no file matches %s", arg, pattern)
	}
	return name, paths, nil
}

// criterionSamples returns the files of a folder in which Criterion.rs keeps the samples
// of its benchmarks: a folder called criterion, alone, in a folder target, or in a folder
// with that. Their paths name the benchmarks. After each run, base is a copy of new; it is
// left out.
func criterionSamples(folder string) (out []string) {
	for _, dir := range []string{folder, filepath.Join(folder, "criterion"),
		filepath.Join(folder, "target", "criterion")} {
		if filepath.Base(dir) != "criterion" {
			continue
		}
		// What cannot be read is left out, as in a pattern.
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name() == "sample.json" {
				out = append(out, path)
			}
			if err == nil && d.Name() == "base" {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), "new", "sample.json")); err == nil {
					return filepath.SkipDir
				}
			}
			return nil
		})
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// standardInput is the path of what is read from there.
const standardInput = "standard input"

func (a reader) openInput(path string) (input, error) {
	if path == "-" {
		in, err := logReader(a.In, standardInput)
		if err != nil {
			return input{}, err
		}
		ends := &ends{Reader: in}
		return input{path: standardInput, in: bufio.NewReaderSize(ends, in.Size()), ends: ends}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return input{}, fault.Wrap(fault.Invalid, "analyse", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return input{}, fault.WithFix(fault.New(fault.Invalid, "%s is a folder", path),
			"use bakeoff verify or bakeoff report for run folders; analyse reads only folders called criterion")
	}
	in, err := logReader(f, path)
	if err != nil {
		f.Close()
		return input{}, err
	}
	ends := &ends{Reader: in}
	return input{path: path, file: f, in: bufio.NewReaderSize(ends, in.Size()), ends: ends}, nil
}

// ends keeps the ends of what is read, as UTF-8.
type ends struct {
	io.Reader
	first byte // after spaces and the byte order mark
	last  byte
}

// Read implements io.Reader.
func (e *ends) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	for _, b := range p[:n] {
		if e.first == 0 && b > ' ' && b < 0x80 {
			e.first = b
		}
		e.last = b
	}
	return n, err
}

// cutShort warns of a file that was read and whose last line has no end. A number in that
// line may have lost digits. A complete JSON or XML document needs no end of a line.
func (x input) cutShort() []string {
	closing, document := map[byte]byte{'{': '}', '[': ']', '<': '>'}[x.ends.first]
	if last := x.ends.last; x.ends.first == 0 || last == '\n' || last == '\r' || document && last == closing {
		return nil
	}
	return []string{x.path + " does not end with a newline. It may be incomplete, and its last value may be wrong."}
}

// colors are the sequences with which programs color text on a terminal. Those that are
// made to do so write them to files, too. Buildkite adds the time in such a sequence.
var colors = lazy.Compile("\x1b\\[[0-9;]*[A-Za-z]|\x1b_bk;t=[0-9]+\x07")

// lineBreaks are those of programs that write CR LF to a terminal, which adds a CR.
var lineBreaks = lazy.Compile("\r\r+\n")

// plainText removes what a terminal adds from the text of a file.
func plainText(data []byte) []byte {
	if bytes.IndexByte(data, '\x1b') >= 0 { // beyond the head, of which utf8Reader removed the colors
		data = colors.ReplaceAll(data, nil)
	}
	if bytes.Contains(data, []byte("\r\r")) {
		data = lineBreaks.ReplaceAll(data, []byte("\n"))
	}
	return data
}

// refuseArchive returns an error if a file with this head is a tar archive.
func refuseArchive(path string, head []byte) error {
	const at = 257 // of the magic in the header of the first file
	if len(head) < at || !bytes.HasPrefix(head[at:], []byte("ustar")) {
		return nil
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s:1: this is a tar archive", path),
		"unpack it, and name the files in it")
}

// gzipMagic begins a file of gzip.
var gzipMagic = []byte("\x1f\x8b\x08")

// unpacked reads a file, and what is in it if gzip packed it.
func unpacked(file io.Reader, path string) (*bufio.Reader, error) {
	in := bufferHead(file)
	if head, _ := in.Peek(len(gzipMagic)); !bytes.Equal(head, gzipMagic) {
		return in, nil
	}
	z, err := gunzip.NewReader(in)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, path+":1: the compressed file is damaged", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, format.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, path+":1: the compressed file is damaged or incomplete", err)
	case len(data) > format.MaxBytes:
		return nil, fault.New(fault.Invalid, "%s has more than %d MiB when it is unpacked; analyze a part of it", path,
			format.MaxBytes>>20)
	}
	return bufferHead(bytes.NewReader(data)), nil
}

// bufferHead returns a reader that can peek at the head of a file. The buffer of a small file is small, because many
// may be open.
func bufferHead(file io.Reader) *bufio.Reader {
	size := int64(format.HeadBytes)
	switch f := file.(type) {
	case *bytes.Reader:
		size = min(size, f.Size())
	case *os.File:
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = min(size, info.Size())
		}
	}
	return bufio.NewReaderSize(file, int(size))
}

// utf8Reader reads a file. Text in UTF-16, as PowerShell writes it, becomes UTF-8, and
// text with colors loses them.
func utf8Reader(file io.Reader, path string) (*bufio.Reader, error) {
	in, err := unpacked(file, path)
	if err != nil {
		return nil, err
	}
	head, _ := in.Peek(in.Size()) // what reads on finds an error again
	wide := labeled.IsUTF16(head)
	if !wide && (!colors.Match(head) || lazy.Compile(compressedFile).Match(head)) {
		return in, nil
	}
	data, err := readBounded(in, path, "of UTF-16 or of text with colors")
	if err != nil {
		return nil, err
	}
	if wide {
		data = labeled.Clean(data)
	}
	return bufferHead(bytes.NewReader(colors.ReplaceAll(data, nil))), nil
}

// logReader reads a file as utf8Reader does, without what a CI server wrote before each line.
func logReader(file io.Reader, path string) (*bufio.Reader, error) {
	in, err := utf8Reader(file, path)
	if err != nil {
		return nil, err
	}
	return withoutLogPrefix(in, path)
}

// nameByFile names the contenders that have no name after their files: without
// folder and extension, unless another file would have or was given the same name.
func (all inputs) nameByFile() {
	given := slices.Clone(all)
	short := func(x input) string {
		name := strings.TrimSuffix(filepath.Base(x.path), ".gz")
		return strings.TrimSuffix(name, filepath.Ext(name))
	}
	for i, x := range given {
		if x.name != "" {
			continue
		}
		clash := slices.ContainsFunc(given, func(o input) bool {
			return o.path != x.path && (short(o) == short(x) || o.name == short(x))
		})
		if all[i].name = short(x); clash {
			all[i].name = x.path
		}
	}
}

// commonFormat returns the format of all files; nil for a table.
func (all inputs) commonFormat(from string) (format.Format, error) {
	if from != "" {
		f, _ := lists.Find(formatall.Formats(), func(f format.Format) bool { return f.Doc().Name == from })
		return f, nil
	}
	var found format.Format
	for i, x := range all {
		head, err := x.in.Peek(x.in.Size())
		if err != nil && len(head) == 0 && err != io.EOF {
			return nil, fault.Wrap(fault.Lab, "read "+x.path, err)
		}
		f, err := recognize(x.path, head)
		if err != nil {
			return nil, err
		}
		if i > 0 && formatName(f) != formatName(found) {
			return nil, fault.New(fault.Invalid, "%s has the format %s and %s has the format %s; compare files of "+
				"one format, or name the format with --from", all[0].path, formatName(found), x.path, formatName(f))
		}
		found = f
	}
	return found, nil
}

func formatName(f format.Format) string {
	if f == nil {
		return tableFormat
	}
	return f.Doc().Name
}

// ownFile matches the beginning of bakeoff's own JSON files.
var ownFile = lazy.Compile(`^\s*\{[^{}]{0,1000}"schema": ?"bakeoff/`)

// recognize returns the format of a file with this head; nil if it may be a table.
func recognize(path string, head []byte) (format.Format, error) {
	if err := refuseArchive(path, head); err != nil {
		return nil, err
	}
	switch fs := format.Recognize(formatall.Formats(), head); {
	case len(fs) == 1:
		return fs[0], nil
	case len(fs) > 1:
		names := lists.Map(fs, func(f format.Format) string { return f.Doc().Name })
		return nil, fault.New(fault.Invalid, "%s may have the format %s; name the right one with --from", path,
			strings.Join(names, " or "))
	}
	if lazy.Compile(compressedFile).Match(head) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s:1: this is a compressed file", path), "unpack it")
	}
	if len(bytes.TrimSpace(format.TrimMark(head))) == 0 {
		return nil, fault.New(fault.Invalid, "%s is empty; the program that should write it may have failed", path)
	}
	if err := format.SummaryError(formatall.Formats(), path, head); err != nil {
		return nil, err
	}
	if ownFile.Match(head) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s:1: this is a file that bakeoff wrote", path),
			"compare run folders with bakeoff compare OLD NEW, or make a table of one with bakeoff export RUN")
	}
	if !analysis.LooksLikeTable(head) {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s:1: analyse does not recognize the format", path),
			"write the file as bakeoff analyse --help shows, or name its format with --from: "+
				strings.Join(formatNames(), ", "))
	}
	return nil, nil
}

// named returns a message about a file that begins with its path.
func named(path, text string) string {
	if strings.HasPrefix(text, path) {
		return text
	}
	return path + ": " + text
}

// readAs reads the files as format f. A gate refuses two contenders with the same content, and a
// file that is named twice.
func (all inputs) readAs(f format.Format, gate bool) (out []series.Source, err error) {
	var problems []string
	seen := map[[sha256.Size]byte]input{}
	for _, x := range all {
		data, err := io.ReadAll(io.LimitReader(x.in, format.MaxBytes+1))
		if err != nil {
			return nil, fault.Wrap(fault.Lab, "read "+x.path, err)
		}
		if len(data) > format.MaxBytes {
			return nil, fault.New(fault.Invalid, "%s has more than %d MiB; analyze a part of it", x.path, format.MaxBytes>>20)
		}
		data = plainText(data)
		file, err := f.Read(x.path, data)
		if err != nil {
			// The reader knows best what is wrong in a file of its own program.
			if head := data[:min(len(data), format.HeadBytes)]; !f.Recognizes(head) {
				err = cmp.Or(format.SummaryError([]format.Format{f}, x.path, head), err)
			}
			problems = append(problems, err.Error())
			continue
		}
		for i, text := range file.Warnings {
			file.Warnings[i] = named(x.path, text)
		}
		sum := sha256.Sum256(data)
		if other := seen[sum]; other.path != "" {
			text := fmt.Sprintf("%s has the same content as %s. One of them may be the wrong file.", x.path, other.path)
			if gate && (x.name != other.name || x.path == other.path) {
				problems = append(problems, text+" Files with the same content show no difference, so --fail-on refuses them.")
				continue
			}
			file.Warnings = append(file.Warnings, text)
		} else {
			seen[sum] = x
		}
		if n := copies(data); n > 1 {
			file.Warnings = append(file.Warnings, fmt.Sprintf("%s contains the same text %d times. Values that are listed "+
				"more than once are not independent, so the intervals are too narrow.", x.path, n))
		}
		file.Cut = append(file.Cut, x.cutShort()...)
		file.Warnings = append(file.Warnings, x.cutShort()...)
		out = append(out, series.Source{Name: x.name, Path: x.path, File: file})
	}
	if len(problems) > 0 {
		return nil, fault.New(fault.Invalid, "%s", strings.Join(problems, "\n"))
	}
	together := make([]*format.File, len(out))
	for i := range out {
		together[i] = &out[i].File
	}
	format.Settle(f, together)
	return out, nil
}

// copies returns how many times a file consists of the same lines: 1 if it was not appended to itself. A file of equal
// lines may have the repetitions of a value that never varies, such as a size.
func copies(data []byte) int {
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n') // the last copy may lack it
	}
	for end := 0; ; {
		line := bytes.IndexByte(data[end:], '\n') + 1
		if end += line; line == 0 || end > len(data)/2 {
			return 1
		}
		if len(data)%end == 0 && bytes.Equal(data[:len(data)-end], data[end:]) {
			if line == end {
				return 1
			}
			return len(data) / end
		}
	}
}
