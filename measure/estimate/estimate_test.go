package estimate

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/measure/corpus"
)

func coder(t *testing.T, name string, p Pool) *zfsCoder {
	t.Helper()
	a, err := Find([]string{"zfs " + name}, nil)
	if err != nil || len(a) != 1 {
		t.Fatal(a, err)
	}
	return newZFS(a[0], p, nil)
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// The rules by which ZFS keeps a record.
func TestRecordsOfZFS(t *testing.T) {
	text := bytes.Repeat([]byte("To be or not to be. "), 1<<16)
	for _, c := range []struct {
		name, algorithm string
		pool            Pool
		record          []byte
		want            block
	}{
		{"zeros are a hole", "lz4", Pool{Ashift: 12}, make([]byte, 4096), block{}},
		{"but not where nothing is compressed", "off", Pool{Ashift: 12}, make([]byte, 4096), block{4096, 4096, 4096}},
		{"noise is kept as it is", "gzip-6", Pool{Ashift: 9}, noise(4096), block{4096, 4096, 4096}},
		// zlib makes 28 bytes of it.
		{"what is tiny is in the pointer", "gzip-6", Pool{Ashift: 12}, bytes.Repeat([]byte("a"), 4096), block{4096, 27, 0}},
		{"not in an old pool", "gzip-6", Pool{Ashift: 12, Old: true}, bytes.Repeat([]byte("a"), 4096),
			block{4096, 512, 4096}},
		{"half of a record saves nothing in one sector", "gzip-6", Pool{Ashift: 12},
			append(noise(2048), make([]byte, 2048)...), block{4096, 4096, 4096}},
		{"and does in eight", "gzip-6", Pool{Ashift: 9}, append(noise(1500), make([]byte, 2596)...), block{4096, 2048, 2048}},
		{"an eighth must be saved", "gzip-6", Pool{Ashift: 9}, append(noise(3700), make([]byte, 396)...),
			block{4096, 4096, 4096}},
	} {
		if got := coder(t, c.algorithm, c.pool).writeRecord(c.record); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	// zstd from level 3 on asks lz4 first, about large records: what lz4
	// cannot do, it does not try.
	if got := coder(t, "zstd-7", Pool{Ashift: 12}).writeRecord(text[:1<<17]); got.physical >= 1<<14 {
		t.Errorf("text under zstd-7: %+v", got)
	}
}

func TestTheLastRecord(t *testing.T) {
	scratch := make([]byte, 8192)
	for _, c := range []struct {
		file int
		want []int
	}{{1, []int{512}}, {512, []int{512}}, {700, []int{1024}}, {4096, []int{4096}}, {4097, []int{4096, 4096}},
		{9000, []int{4096, 4096, 4096}}} {
		var got []int
		records(noise(c.file), int64(c.file), 4096, scratch, func(r []byte) { got = append(got, len(r)) })
		if !slices.Equal(got, c.want) {
			t.Errorf("a file of %d bytes has records of %v, want %v", c.file, got, c.want)
		}
	}
}

// The rules by which btrfs keeps an extent.
func TestExtentsOfBtrfs(t *testing.T) {
	a, err := Find([]string{"zlib:6"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("To be or not to be. "), 1<<14)
	for _, c := range []struct {
		name string
		data []byte
		want int64
	}{
		{"small noise is inline", noise(2000), 2000},
		{"larger noise is not", noise(2500), 4096},
		{"compressed it is inline again", text[:3000], -1},
		{"a sector must be saved", append(noise(6000), text[:2000]...), 8192},
		{"an extent", text[:131072], 4096},
	} {
		got := newBtrfs(a[0], false, nil).storeExtent(c.data, 0, int64(len(c.data)))
		if c.want >= 0 && got.allocated != c.want || c.want < 0 && got.allocated > 200 {
			t.Errorf("%s: %+v, want %d", c.name, got, c.want)
		}
	}
	// After a piece that does not compress nothing more is tried of its 512 KiB,
	// and of the file, unless it is forced; after one that does not look so, of
	// its 512 KiB.
	const piece = btrfsChunk
	for _, c := range []struct {
		name   string
		first  []byte
		force  bool
		stored int64
	}{
		{"noise", noise(piece), false, 4*piece + 4096},
		{"noise, forced", noise(piece), true, 4*piece + 4096},
		{"text, forced", text[:piece], true, 5 * 4096},
	} {
		b := newBtrfs(a[0], c.force, nil)
		b.beginFile()
		var sum block
		file := append(append([]byte{}, c.first...), bytes.Repeat(text[:piece], 4)...)
		for at := 0; at < len(file); at += piece {
			sum.addBlock(b.storeExtent(file[at:at+piece], int64(at), int64(len(file))))
		}
		if sum.allocated != c.stored {
			t.Errorf("%s, then text: %d bytes, want %d", c.name, sum.allocated, c.stored)
		}
	}
	// What looks as if it compressed, and does not: noise but for the bytes that
	// are sampled.
	seeming := noise(piece)
	for i := 0; i < piece; i += 256 {
		for j := range 16 {
			seeming[i+j] &= 0x1f
		}
	}
	for force, want := range map[bool]int64{false: 5 * piece, true: 4*piece + 4096} {
		b := newBtrfs(a[0], force, nil)
		var sum block
		for at := int64(0); at < 5*piece; at += piece {
			part := text[:piece]
			if at == 0 {
				part = seeming
			}
			sum.addBlock(b.storeExtent(part, at, 5*piece))
		}
		if sum.allocated != want {
			t.Errorf("what only looks compressible, force %t: %d bytes, want %d", force, sum.allocated, want)
		}
	}
	if worthwhile(noise(131072)) || !worthwhile(text[:131072]) {
		t.Error("noise is worth while, or text is not")
	}
}

func mail(t *testing.T, files int) string {
	dir := filepath.Join(t.TempDir(), "mail")
	if err := (corpus.Mail{Files: files, Seed: 2}).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A sample says how far it may be off, and is not further off in nearly all
// drawings (these are fixed by their seeds); reading everything is exact whatever the workers do.
func TestASampleStatesItsError(t *testing.T) {
	dir := mail(t, 3000)
	o := Options{Records: []int64{1 << 17}}
	o.Algorithms, _ = Find([]string{"lzjb"}, nil)
	whole, err := Folder(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Workers = 1
	again, err := Folder(t.Context(), dir, o)
	if err != nil || again.Rows[0].Ratio != whole.Rows[0].Ratio ||
		again.Rows[0].StoredBytes != whole.Rows[0].StoredBytes || whole.Rows[0].Error != 0 {
		t.Errorf("%+v and with one worker %+v: %v", whole.Rows[0], again.Rows[0], err)
	}
	inside := 0
	const drawings = 20
	for seed := range uint64(drawings) {
		o.SampleBytes, o.Seed = whole.Bytes/3, seed
		e, err := Folder(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if e.Rows[0].Error <= 0 || e.SampledBytes >= e.Bytes {
			t.Fatalf("a sample of %d of %d bytes with the error %g", e.SampledBytes, e.Bytes, e.Rows[0].Error)
		}
		if math.Abs(e.Rows[0].Ratio-whole.Rows[0].Ratio) <= e.Rows[0].Error {
			inside++
		}
	}
	if inside < drawings*9/10 {
		t.Errorf("%d of %d samples hold what they state", inside, drawings)
	}
}

func TestRefuses(t *testing.T) {
	dir := mail(t, 3)
	lz4, _ := Find([]string{"lz4"}, nil)
	for name, c := range map[string]struct {
		dir  string
		o    Options
		kind fault.Kind
		says string
	}{
		"no such folder": {filepath.Join(dir, "none"), Options{Algorithms: lz4, Records: []int64{4096}},
			fault.NotFound, "none"},
		"an empty folder": {t.TempDir(), Options{Algorithms: lz4, Records: []int64{4096}}, fault.Invalid, "no files"},
		"an odd record":   {dir, Options{Algorithms: lz4, Records: []int64{5000}}, fault.Invalid, "power of two"},
		"an odd sector": {dir, Options{Algorithms: lz4, Records: []int64{4096}, Pool: Pool{Ashift: 3}}, fault.Invalid,
			"ashift"},
		"nothing to compare": {dir, Options{}, fault.Invalid, "no algorithm"},
	} {
		if _, err := Folder(t.Context(), c.dir, c.o); !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Find([]string{"zstd-19"}, nil); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "zstd-19") {
		t.Errorf("zstd-19: %v", err)
	}
	if _, err := Find([]string{"rar"}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("rar: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Folder(ctx, dir, Options{Algorithms: lz4, Records: []int64{4096}}); err == nil {
		t.Error("a cancelled one went on")
	}
}

// Links lead nowhere, and what cannot be read is counted.
func TestStrangeFiles(t *testing.T) {
	dir := mail(t, 3)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	o := Options{Records: []int64{4096}}
	o.Algorithms, _ = Find([]string{"off"}, nil)
	e, err := Folder(t.Context(), dir, o)
	if err != nil || e.Files != 3 || e.SampledBytes != e.Bytes || e.Unread != 0 {
		t.Errorf("%+v %v", e, err)
	}
}
