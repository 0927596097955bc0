package stream

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"bakeoff/base/fault"
)

// writer writes streams as zfs_send does (module/zfs/dmu_send.c, dump_record).
type writer struct {
	bytes.Buffer
	o   binary.ByteOrder
	sum sum
}

// record writes one record: fill sets its union.
func (w *writer) record(kind uint32, payload []byte, fill func(u []byte)) {
	b := make([]byte, record)
	w.o.PutUint32(b, kind)
	w.o.PutUint32(b[4:], uint32(len(payload)))
	if fill != nil {
		fill(b[8:])
	}
	if kind == end {
		for i, x := range w.sum {
			w.o.PutUint64(b[8+8*i:], x)
		}
	}
	w.sum.add(b[:sumAt], w.o)
	if kind != begin {
		for i, x := range w.sum {
			w.o.PutUint64(b[sumAt+8*i:], x)
		}
	}
	w.sum.add(b[sumAt:], w.o)
	w.Write(b)
	w.sum.add(payload, w.o)
	w.Write(payload)
}

func (w *writer) begin(kind uint32, features, guid, from uint64) {
	w.record(begin, nil, func(u []byte) {
		w.o.PutUint64(u, magic)
		w.o.PutUint64(u[8:], features<<2|1)
		w.o.PutUint32(u[24:], kind)
		w.o.PutUint64(u[32:], guid)
		w.o.PutUint64(u[40:], from)
		copy(u[48:], "zones/disk@final")
	})
}

func (w *writer) object(number uint64, kind, block uint32) {
	w.record(object, nil, func(u []byte) {
		w.o.PutUint64(u, number)
		w.o.PutUint32(u[8:], kind)
		w.o.PutUint32(u[16:], block)
		u[28], u[29] = 7, off // fletcher4
	})
}

// write writes a block; compression 0 and length 0 send it as it is.
func (w *writer) write(of, at uint64, b []byte, length int, compression byte) {
	w.record(write, b, func(u []byte) {
		w.o.PutUint64(u, of)
		w.o.PutUint32(u[8:], 23)
		w.o.PutUint64(u[16:], at)
		w.o.PutUint64(u[24:], uint64(len(b)))
		if u[40] = 7; compression != 0 {
			w.o.PutUint64(u[24:], uint64(length))
			w.o.PutUint64(u[88:], uint64(len(b)))
			u[42] = compression
		}
	})
}

func (w *writer) free(of, at, length uint64) {
	w.record(free, nil, func(u []byte) {
		w.o.PutUint64(u, of)
		w.o.PutUint64(u[8:], at)
		w.o.PutUint64(u[16:], length)
	})
}

// size writes the properties of a volume: a micro ZAP.
func (w *writer) size(n uint64) {
	b := make([]byte, 512)
	w.o.PutUint64(b, 1<<63+3)
	w.o.PutUint64(b[64:], n)
	copy(b[64+14:], "size")
	w.object(propObject, 24, 512)
	w.write(propObject, 0, b, 0, 0)
}

const blockBytes = 1024

func filled(c byte) []byte { return bytes.Repeat([]byte{c}, blockBytes) }

func padded(b []byte) []byte { return append(b, make([]byte, -len(b)&7)...) }

func blockLZ4(t testing.TB, b []byte) []byte {
	out := make([]byte, lz4.CompressBlockBound(len(b)))
	n, err := lz4.CompressBlock(b, out, nil)
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	return padded(append(binary.BigEndian.AppendUint32(nil, uint32(n)), out[:n]...))
}

func blockZlib(b []byte) []byte {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write(b)
	w.Close()
	return padded(z.Bytes())
}

func blockZstd(t testing.TB, b []byte) []byte {
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := e.EncodeAll(b, nil)[4:] // without the magic number
	return padded(append(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), 3, 0, 0, 1), frame...))
}

// blockZLE is runs of zeros and literals, as zle.c writes them.
func blockZLE() []byte {
	out := []byte{3, 'a', 'b', 'c', 'd'}
	for left := blockBytes - 4; left > 0; {
		n := min(left, 192)
		out, left = append(out, byte(63+n)), left-n
	}
	return padded(out)
}

// blockLZJB is one literal, and copies of it.
func blockLZJB() []byte {
	var out []byte
	n := 0
	for n < blockBytes {
		control := len(out)
		out = append(out, 0)
		for bit := 0; bit < 8 && n < blockBytes; bit++ {
			if n == 0 {
				out, n = append(out, 'j'), 1
				continue
			}
			length := min(66, blockBytes-n)
			if length < 3 {
				out, n = append(out, 'j'), n+1
				continue
			}
			out[control] |= 1 << bit
			out = append(out, byte(length-3)<<2, 1) // the byte before it
			n += length
		}
	}
	return padded(out)
}

// sample is a stream with every kind of record and compression, and the disk it holds.
func sample(t testing.TB, o binary.ByteOrder) ([]byte, []byte) {
	w := &writer{o: o}
	w.begin(volume, embedData|lz4Blocks|compressedBlocks|zstdBlocks, 7, 0)
	w.record(freeObjects, nil, func(u []byte) { w.o.PutUint64(u[8:], 1) })
	w.object(dataObject, 23, blockBytes)
	w.free(dataObject, 1<<20, 1<<62)
	want := make([]byte, 16*blockBytes)
	put := func(n int, b []byte) { copy(want[n*blockBytes:], b) }
	for n, c := range []struct {
		sent        []byte
		plain       []byte
		compression byte
	}{
		{filled('0'), filled('0'), 0}, {blockLZ4(t, filled('l')), filled('l'), lz4Block},
		{blockZlib(filled('g')), filled('g'), 10}, {blockZstd(t, filled('z')), filled('z'), zstdAny},
		{blockZLE(), append([]byte("abcd"), make([]byte, blockBytes-4)...), zle}, {blockLZJB(), filled('j'), lzjb},
		{filled('x'), filled('x'), 0}, {filled(0), filled(0), 0},
	} {
		w.write(dataObject, uint64(n*blockBytes), c.sent, blockBytes, c.compression)
		put(n, c.plain)
	}
	w.free(dataObject, 6*blockBytes, blockBytes)
	put(6, filled(0))
	small := blockLZ4(t, filled('e'))
	w.record(writeEmbedded, small, func(u []byte) {
		w.o.PutUint64(u, dataObject)
		w.o.PutUint64(u[8:], 9*blockBytes)
		w.o.PutUint64(u[16:], blockBytes)
		u[32] = lz4Block
		w.o.PutUint32(u[40:], blockBytes)
		w.o.PutUint32(u[44:], uint32(len(small)))
	})
	put(9, filled('e'))
	w.record(spill, make([]byte, 512), func(u []byte) { w.o.PutUint64(u[8:], 512) })
	w.free(dataObject, 10*blockBytes, 1<<64-1)
	w.size(uint64(len(want)))
	w.record(freeObjects, nil, func(u []byte) { w.o.PutUint64(u, 3); w.o.PutUint64(u[8:], 1<<40) })
	w.record(end, nil, nil)
	return w.Bytes(), want
}

func decode(t testing.TB, text []byte) (Volume, []byte, error) {
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, derr := Decode(bytes.NewReader(text), f, Volume{})
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return v, b, derr
}

func TestDecode(t *testing.T) {
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		text, want := sample(t, o)
		if !IsStream(text[:16]) {
			t.Errorf("%v: not recognized", o)
		}
		v, got, err := decode(t, text)
		if err != nil || !bytes.Equal(got, want) || v.Name != "zones/disk@final" || v.GUID != 7 ||
			v.Size != int64(len(want)) {
			t.Errorf("%v: %+v, %d bytes, %v", o, v, len(got), err)
		}
	}
}

// change is an incremental stream upon sample.
func change() *writer {
	w := &writer{o: binary.LittleEndian}
	w.begin(volume, 0, 8, 7)
	w.free(dataObject, blockBytes, blockBytes)
	w.write(dataObject, 15*blockBytes, filled('n'), 0, 0)
	w.record(end, nil, nil)
	return w
}

var update = flag.Bool("update", false, "write the streams that other packages test with")

// The streams that other packages test with are those of this test.
func TestTestdata(t *testing.T) {
	full, _ := sample(t, binary.LittleEndian)
	for name, want := range map[string][]byte{"volume.zfs": full, "change.zfs": change().Bytes()} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// Compressors may change, so the decoded disks are compared.
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name == "volume.zfs" {
			_, a, aerr := decode(t, got)
			_, b, berr := decode(t, want)
			if aerr != nil || berr != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: %v, %v", name, aerr, berr)
			}
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the test writes", name)
		}
	}
}

// An incremental stream changes the disk of its snapshot, and no other.
func TestIncremental(t *testing.T) {
	full, want := sample(t, binary.LittleEndian)
	w := change()
	copy(want[blockBytes:], filled(0))
	copy(want[15*blockBytes:], filled('n'))
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	base, err := Decode(bytes.NewReader(full), f, Volume{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Decode(bytes.NewReader(w.Bytes()), f, base)
	got, rerr := os.ReadFile(f.Name())
	if err != nil || rerr != nil || !bytes.Equal(got, want) || v.GUID != 8 || v.Size != base.Size {
		t.Errorf("%+v, %v, %v", v, err, rerr)
	}
	if _, _, err := decode(t, w.Bytes()); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(),
		"record BEGIN at byte 0: the stream changes the snapshot with GUID 7, which the disk does not hold") {
		t.Errorf("%v", err)
	}
}

// What is not decoded is refused, by the name and the place of its record.
func TestRefused(t *testing.T) {
	le := binary.LittleEndian
	of := func(kind uint32, features uint64, more func(w *writer)) []byte {
		w := &writer{o: le}
		w.begin(kind, features, 7, 0)
		if more != nil {
			more(w)
		}
		w.record(end, nil, nil)
		return w.Bytes()
	}
	good, _ := sample(t, le)
	flipped := bytes.Clone(good)
	flipped[4*record+100] ^= 1 // in the first data
	wrongEnd := bytes.Clone(good)
	wrongEnd[len(good)-record+8] ^= 1
	for name, c := range map[string]struct {
		text []byte
		kind fault.Kind
		want string
	}{
		"file system": {of(fileSystem, 0, nil), fault.Unsupported, "record BEGIN at byte 0: the stream is of a file system"},
		"raw":         {of(volume, 1<<24, nil), fault.Unsupported, "the stream is raw (encrypted)"},
		"unknown":     {of(volume, 1<<9, nil), fault.Unsupported, "features that bakeoff does not know (0x200)"},
		"by reference": {of(volume, 0, func(w *writer) { w.record(writeByRef, nil, nil) }), fault.Unsupported,
			"record WRITE_BYREF at byte 312: bakeoff does not decode records of this type"},
		"unknown record": {of(volume, 0, func(w *writer) { w.record(77, nil, nil) }), fault.Unsupported,
			"a record of the unknown type 77 at byte 312"},
		"compression": {of(volume, 0, func(w *writer) { w.write(1, 0, make([]byte, 512), 1024, 99) }), fault.Unsupported,
			"record WRITE at byte 312: its compression 99 is not known"},
		"far": {of(volume, 0, func(w *writer) { w.write(1, 1<<60, make([]byte, 512), 0, 0) }), fault.Invalid,
			"is outside of the disk"},
		"no size": {of(volume, 0, nil), fault.Invalid, "does not say how large"},
		"cut":     {good[:len(good)-20], fault.Invalid, "the stream is cut off"},
		"empty":   {nil, fault.Invalid, "the stream is cut off"},
		"text":    {bytes.Repeat([]byte("x"), 400), fault.Invalid, "it is not a ZFS stream"},
		"flipped": {flipped, fault.Invalid, "the checksum of the data before this record is wrong"},
		"the end": {wrongEnd, fault.Invalid, "the checksum"},
		"two":     {append(bytes.Clone(good), good...), fault.Unsupported, "another stream follows"},
	} {
		_, _, err := decode(t, c.text)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The program that ZFS has for it finds no fault in the streams of these tests.
func TestZstreamdump(t *testing.T) {
	argv := []string{"zstreamdump"}
	if _, err := exec.LookPath("zstream"); err == nil {
		argv = []string{"zstream", "dump"}
	} else if _, err := exec.LookPath("zstreamdump"); err != nil {
		t.Skip("needs zstream or zstreamdump: apt-get install zfs-fuse")
	}
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		w := &writer{o: o}
		w.begin(volume, 0, 7, 0)
		w.object(dataObject, 23, blockBytes)
		w.write(dataObject, 0, filled('a'), 0, 0)
		w.free(dataObject, blockBytes, 1<<62)
		w.size(4 * blockBytes)
		w.record(end, nil, nil)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = bytes.NewReader(w.Bytes())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Total DRR_WRITE records = 2") ||
			strings.Contains(string(out), "ncorrect") || strings.Contains(string(out), "nvalid") {
			t.Errorf("%v: %v: %s", o, err, out)
		}
	}
}

// The records and checksums of a stream that zfs-fuse sends are read. It is of a file system,
// because zfs-fuse has no volumes; see TestStreamsOfOpenZFS.
func TestRealStream(t *testing.T) {
	text := unpacked(t, filepath.Join("testdata", "filesystem.zfs.gz")) // of zfs-fuse 0.7.0
	if _, _, err := decode(t, text); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "a file system") {
		t.Errorf("%v", err)
	}
	d := &decoder{r: &reader{r: bufio.NewReader(bytes.NewReader(text))}, disk: discard{}}
	if _, err := d.r.header(); err != nil {
		t.Fatal(err)
	}
	kinds := map[uint32]int{}
	for {
		done, err := d.next()
		if err != nil {
			t.Fatal(d.located(err))
		}
		if kinds[d.kind]++; done {
			break
		}
	}
	for _, kind := range []uint32{object, write, free, freeObjects, end} {
		if kinds[kind] == 0 {
			t.Errorf("no %s: %v", names[kind], kinds)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		text, _ := sample(f, o)
		f.Add(text)
		f.Add(unsummed(text, o))
	}
	real, err := filepath.Glob(filepath.Join(streamsOf, "*.gz"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range real {
		f.Add(unpacked(f, file))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := Decode(bytes.NewReader(text), discard{}, Volume{})
		if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
			t.Fatalf("%v", err)
		}
	})
}

// unsummed is a stream whose records have no checksums, as old systems write it.
func unsummed(text []byte, o binary.ByteOrder) []byte {
	w := &writer{o: o}
	r := &reader{r: bufio.NewReader(bytes.NewReader(text))}
	for {
		b, err := r.header()
		if err != nil {
			return w.Bytes()
		}
		if kind := o.Uint32(b); kind != begin {
			clear(b[sumAt:])
			if kind == end {
				for i, x := range w.sum {
					o.PutUint64(b[8+8*i:], x)
				}
			}
		}
		payload, err := r.payload(int64(o.Uint32(b[4:])))
		if err != nil {
			return w.Bytes()
		}
		w.sum.add(b, o)
		w.sum.add(payload, o)
		w.Write(b)
		w.Write(payload)
	}
}

func TestWithoutChecksums(t *testing.T) {
	text, want := sample(t, binary.LittleEndian)
	if _, got, err := decode(t, unsummed(text, binary.LittleEndian)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v", err)
	}
}

// discard is a disk that keeps nothing.
type discard struct{}

func (discard) WriteAt(b []byte, at int64) (int, error) {
	if at < 0 || at+int64(len(b)) > MaxDisk {
		panic("outside of the disk")
	}
	return len(b), nil
}

func (discard) Truncate(size int64) error {
	if size < 0 || size > MaxDisk {
		panic("outside of the disk")
	}
	return nil
}
