package bundle_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/store/storetest"
)

const archive = "../../evidence/testdata/20261123T030217Z-quick.tar.gz"

// packed is a bundle in memory: blobs by their digests.
type packed struct {
	bundle.Packed
	blobs map[string][]byte
	dir   string // the folder that was packed
}

func pack(t testing.TB, dir string) (packed, error) {
	t.Helper()
	out := packed{blobs: map[string][]byte{}, dir: dir}
	var err error
	out.Packed, err = bundle.Pack(dir, filepath.Base(dir), func(write func(io.Writer) error) (v1.Descriptor, error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return v1.Descriptor{}, err
		}
		h, n, err := v1.SHA256(bytes.NewReader(b.Bytes()))
		out.blobs[h.String()] = b.Bytes()
		return v1.Descriptor{Digest: h, Size: n}, err
	})
	return out, err
}

func packExample(t testing.TB) packed {
	t.Helper()
	p, err := pack(t, storetest.Unpack(t, archive, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unpack unpacks a folder for a record, and checks it.
func (p packed) unpack(t testing.TB, folder []byte, rec bundle.Record, m bundle.Manifest) error {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := bundle.Unpack(bytes.NewReader(folder), rec, dir)
	if err == nil {
		_, err = bundle.Check(dir, m, rec, p.blobs[m.Results().Digest])
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 1 {
		t.Errorf("unpacked outside of the folder: %v", entries)
	}
	return err
}

// sampleBytes is the digest of the samples of the example. If a new version of the library
// changes it, SamplesFormat must grow: older bundles could not be compared otherwise.
const sampleBytes = "sha256:68be70f3dba33b4206f419a6a8a397b2a6b8d00be26ffcfc6d54e995208bb411"

func TestPackUnpackCheck(t *testing.T) {
	p := packExample(t)
	again := packExample(t)
	if string(p.Encoded) != string(again.Encoded) {
		t.Errorf("equal folders gave other bytes:\n%s\n%s", p.Encoded, again.Encoded)
	}
	if got := p.Manifest.Samples().Digest; got != sampleBytes {
		t.Errorf("the samples have the digest %s", got)
	}
	m, err := bundle.ParseManifest(p.Encoded)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := bundle.ParseRecord(p.blobs[m.Config.Digest])
	if err != nil {
		t.Fatal(err)
	}
	if rec.Lab != "quick" || len(rec.Comparisons) == 0 || rec.Samples != 380 || rec.Facts["crun"]["kernel"] == "" {
		t.Errorf("record: %+v", rec)
	}
	folder := p.blobs[m.Folder().Digest]
	if err := p.unpack(t, folder, rec, m); err != nil {
		t.Fatal(err)
	}
	// Every file of the run is the same.
	dir := t.TempDir()
	if err := bundle.Unpack(bytes.NewReader(folder), rec, dir); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		name, _ := filepath.Rel(p.dir, path)
		want, _ := os.ReadFile(path)
		got, err := os.ReadFile(filepath.Join(dir, name))
		if string(got) != string(want) {
			t.Errorf("%s differs", name)
		}
		return err
	})
	if err != nil || files != rec.Files {
		t.Errorf("%d files, the record names %d: %v", files, rec.Files, err)
	}
}

func TestOnlyWholeRunsArePacked(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"has not ended":          func(d string) error { return os.Remove(filepath.Join(d, "results.json")) },
		"the file was changed":   func(d string) error { return appendTo(filepath.Join(d, "raw"), "x") },
		"is not a plain file":    func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "raw", "link")) },
		"which no program":       func(d string) error { return os.WriteFile(filepath.Join(d, "a b"), nil, 0o600) },
		"journal.ndjson":         func(d string) error { return os.Remove(filepath.Join(d, "journal.ndjson")) },
		"cannot be the name of ": func(string) error { return nil },
	} {
		dir := storetest.Unpack(t, archive, t.TempDir())
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "cannot") {
			to := filepath.Join(filepath.Dir(dir), "a b")
			if err := os.Rename(dir, to); err != nil {
				t.Fatal(err)
			}
			dir = to
		}
		name = strings.Replace(name, "which no program", "is not the name of a file of a run", 1)
		if _, err := pack(t, dir); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// appendTo changes the first file below dir.
func appendTo(dir, text string) error {
	done := false
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || done {
			return err
		}
		done = true
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, text...), 0o600)
	})
}

// entry is a file of a tar file that a test writes.
type entry struct {
	tar.Header
	content string
}

// read returns the files of a packed folder.
func read(t testing.TB, folder []byte) (out []entry) {
	t.Helper()
	err := bundle.Walk(bytes.NewReader(folder), func(h *tar.Header, r io.Reader) error {
		b, err := io.ReadAll(r)
		out = append(out, entry{tar.Header{Typeflag: h.Typeflag, Name: h.Name, Size: h.Size, Mode: h.Mode}, string(b)})
		return err
	}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t testing.TB, entries []entry, after string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := e.Header
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, after); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileFoldersAreRefused(t *testing.T) {
	p := packExample(t)
	folder := p.blobs[p.Manifest.Folder().Digest]
	all := read(t, folder)
	file := func(name string) []entry {
		e := entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, "x"}
		return append([]entry{e}, all...)
	}
	changed := func(change func(*entry)) []entry {
		out := append([]entry{}, all...)
		change(&out[0])
		return out
	}
	named := func(name string) int {
		for i, e := range all {
			if e.Name == name {
				return i
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	content := func(i int, text string) []entry {
		out := append([]entry{}, all...)
		out[i].content = text
		return out
	}
	longer := func(r *bundle.Record) { r.Files++; r.Bytes++ }
	same := func(*bundle.Record) {}
	twice := func(r *bundle.Record) { r.Files, r.Bytes = r.Files+1, r.Bytes+all[0].Size }
	attribute := func(e *entry) { e.PAXRecords = map[string]string{"SCHILY.xattr.user.a": "b"} }
	labeled := func(r *bundle.Record) { r.Labels = map[string]string{"a": "b"} }
	earlier := func(r *bundle.Record) { r.Began = r.Began.Add(-1e9) }
	better := func(r *bundle.Record) { r.Comparisons[0].Verdict = "better" }
	kernel := func(r *bundle.Record) { r.Facts["host"]["kernel"] = "Linux 99" }
	labFile, journal, results := named("bakeoff.yaml"), named("journal.ndjson"), named("results.json")
	for name, c := range map[string]struct {
		folder []byte
		record func(*bundle.Record)
		says   string
	}{
		"absolute path":      {write(t, file("/etc/passwd"), ""), longer, "is not the path"},
		"path out of it":     {write(t, file("../x"), ""), longer, "is not the path"},
		"hidden path out":    {write(t, file("raw/../../x"), ""), longer, "is not the path"},
		"backslashes":        {write(t, file(`..\x`), ""), longer, "is not the path"},
		"control characters": {write(t, file("a\x1b[2J"), ""), longer, "is not the path"},
		"hidden file":        {write(t, file(".ssh"), ""), longer, "is not the path"},
		"deep path":          {write(t, file("a/b/c/d/e/f"), ""), longer, "is not the path"},
		"a page":             {write(t, file("report/index.html"), ""), longer, "is not the path"},
		"a file more":        {write(t, file("aaa"), ""), same, "has more than"},
		"symbolic link":      {write(t, changed(link(tar.TypeSymlink)), ""), longer, "is not a plain file"},
		"hard link":          {write(t, changed(link(tar.TypeLink)), ""), longer, "is not a plain file"},
		"device":             {write(t, changed(link(tar.TypeChar)), ""), longer, "is not a plain file"},
		"pipe":               {write(t, changed(link(tar.TypeFifo)), ""), longer, "is not a plain file"},
		"set-user-ID":        {write(t, changed(func(e *entry) { e.Mode = 0o4755 }), ""), same, "has a tar header"},
		"owner":              {write(t, changed(func(e *entry) { e.Uid = 1 }), ""), same, "has a tar header"},
		"extended attribute": {write(t, changed(attribute), ""), same, "has a tar header"},
		"a file twice":       {write(t, append([]entry{all[0]}, all...), ""), twice, "not sorted by name"},
		"another order":      {write(t, append(append([]entry{}, all[1:]...), all[0]), ""), same, "not sorted by name"},
		"a file less":        {write(t, all[1:], ""), same, "the record names"},
		"bytes at the end":   {write(t, all, "x"), same, "bytes follow"},
		"not zstd":           {[]byte("hello"), same, ""},
		"cut off":            {folder[:len(folder)/2], same, ""},
		"empty":              {nil, same, ""},
		"another lab file": {write(t, content(labFile, "x"), ""), sized(all, labFile, 1), "the record and the " +
			"folder of the bundle differ"},
		"another journal": {write(t, content(journal, "{}\n"), ""), sized(all, journal, 3), ""},
		"other results":   {write(t, content(results, "{}"), ""), sized(all, results, 2), ""},
		"another lab": {folder, func(r *bundle.Record) { r.Lab = "other" }, "the record and the folder " +
			"of the bundle differ in lab"},
		"another time":         {folder, earlier, "the record and the folder of the bundle differ in began"},
		"another verdict":      {folder, better, "in comparisons"},
		"other facts":          {folder, kernel, "in facts"},
		"another count":        {folder, func(r *bundle.Record) { r.Samples++ }, "in samples"},
		"a label":              {folder, labeled, "in labels"},
		"a bomb":               {bomb(t), same, "has more than"},
		"a journal that names": {write(t, changedRaw(all), ""), same, "the file was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := bundle.ParseRecord(p.blobs[p.Manifest.Config.Digest])
			if err != nil {
				t.Fatal(err)
			}
			c.record(&rec)
			if err := p.unpack(t, c.folder, rec, p.Manifest); !fault.Is(err, fault.Invalid) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (kind %v), want %q", err, fault.Of(err), c.says)
			}
		})
	}
}

// link makes an entry one of another kind.
func link(kind byte) func(*entry) {
	return func(e *entry) {
		e.Typeflag, e.Linkname, e.content, e.Size = kind, "/etc/passwd", "", 0
		if kind == tar.TypeChar || kind == tar.TypeFifo {
			e.Linkname = ""
		}
	}
}

// sized adapts the record to another size of a file.
func sized(all []entry, i int, bytes int64) func(*bundle.Record) {
	return func(r *bundle.Record) { r.Bytes += bytes - all[i].Size }
}

// changedRaw changes a byte of a raw file.
func changedRaw(all []entry) []entry {
	out := append([]entry{}, all...)
	for i, e := range out {
		if strings.HasPrefix(e.Name, "raw/") && len(e.content) > 10 {
			b := []byte(e.content)
			b[5] ^= 1
			out[i].content = string(b)
			break
		}
	}
	return out
}

// bomb is a small file that unpacks to a gigabyte.
func bomb(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	const size = 1 << 30
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "aaa", Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range size / len(zeros) {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileManifestsAreRefused(t *testing.T) {
	p := packExample(t)
	text := string(p.Encoded)
	replace := func(old, new string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("the manifest has no %s: %s", old, text)
		}
		return strings.Replace(text, old, new, 1)
	}
	config := p.Manifest.Config.Digest
	size := func(p bundle.Part) string { return fmt.Sprintf(`"size":%d`, p.Size) }
	for name, c := range map[string]struct{ text, says string }{
		"no JSON":          {"x", ""},
		"two documents":    {text + text, ""},
		"white space":      {" " + text, "differs from what bakeoff would write"},
		"unknown field":    {replace(`"layers"`, `"subject":{},"layers"`), ""},
		"another version":  {replace(`"schemaVersion":2`, `"schemaVersion":1`), "version 1"},
		"another type":     {replace(bundle.ArtifactType, "application/vnd.other"), "the type of the artifact"},
		"a type of record": {replace(bundle.RecordType, "application/json"), "the type of the record"},
		"a type of layer":  {replace(string(bundle.SamplesType), "text/html"), "layer 1 has the type"},
		"a layer less":     {replace(text[strings.LastIndex(text, `,{"mediaType"`):], "]}"), "2 layers instead of 3"},
		"no digest":        {replace(config, "sha256:../../../../etc/passwd"), "is not a digest"},
		"upper case":       {replace(config, strings.ToUpper(config)), "is not a digest"},
		"sha512":           {replace(config, "sha512:"+strings.Repeat("a", 128)), "is not a digest"},
		"negative size":    {replace(`"size":`, `"size":-`), ""},
		"no bytes":         {replace(size(p.Manifest.Config), `"size":0`), "has 0 bytes"},
		"a large record":   {replace(size(p.Manifest.Config), `"size":99999999`), "the record has"},
		"a large layer":    {replace(size(p.Manifest.Folder()), `"size":99999999999999`), "layer 2 has"},
		"a large manifest": {replace(`"layers"`, strings.Repeat(" ", bundle.MaxManifest)+`"layers"`), "the limit is"},
	} {
		if _, err := bundle.ParseManifest([]byte(c.text)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestHostileRecordsAreRefused(t *testing.T) {
	p := packExample(t)
	for name, c := range map[string]struct {
		change func(*bundle.Record)
		says   string
	}{
		"a path as run":   {func(r *bundle.Record) { r.Run = "../x" }, "is not the name of a run folder"},
		"a hidden run":    {func(r *bundle.Record) { r.Run = ".x" }, "is not the name of a run folder"},
		"a path as lab":   {func(r *bundle.Record) { r.Lab = "a/b" }, "is not the name of a lab"},
		"another schema":  {func(r *bundle.Record) { r.Schema = "x" }, "the schema"},
		"it ended before": {func(r *bundle.Record) { r.Ended = r.Began.Add(-1) }, "began at"},
		"no journal":      {func(r *bundle.Record) { r.JournalSHA256 = "x" }, "journal_sha256"},
		"many files":      {func(r *bundle.Record) { r.Files = 1 << 40 }, "the folder has"},
		"many bytes":      {func(r *bundle.Record) { r.Bytes = 1 << 60 }, "the folder has"},
		"negative count":  {func(r *bundle.Record) { r.Samples = -1 }, "a count is negative"},
		"a label":         {func(r *bundle.Record) { r.Labels = map[string]string{"a": "b\nc"} }, "label"},
	} {
		rec := p.Record
		c.change(&rec)
		text, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.ParseRecord(text); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// FuzzBundle reads any bytes as each part of a bundle.
func FuzzBundle(f *testing.F) {
	p := packExample(f)
	f.Add(p.Encoded, p.blobs[p.Manifest.Config.Digest], p.blobs[p.Manifest.Folder().Digest])
	small := entry{tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o644}, "x"}
	f.Add([]byte("{}"), []byte("{}"), write(f, []entry{small}, ""))
	f.Fuzz(func(t *testing.T, manifest, record, folder []byte) {
		if m, err := bundle.ParseManifest(manifest); err == nil {
			if len(m.Layers) != 3 || !name.ValidDigest(m.Config.Digest) {
				t.Errorf("accepted %s", manifest)
			}
		} else if !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
		rec, err := bundle.ParseRecord(record)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Error(err)
			}
			rec = bundle.Record{Files: 10, Bytes: 1 << 20}
		}
		rec.Bytes = min(rec.Bytes, 1<<20)
		parent := t.TempDir()
		dir := filepath.Join(parent, "run")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := bundle.Unpack(bytes.NewReader(folder), rec, dir); err != nil && !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("outside of the folder: %v, %v", entries, err)
		}
	})
}
