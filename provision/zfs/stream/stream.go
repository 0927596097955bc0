// Package stream decodes the stream of a ZFS volume, which `zfs send` writes, to a raw disk,
// without ZFS.
//
// It reads streams of both byte orders, and blocks that were sent compressed (zfs send -c) or
// embedded (-e). It refuses every other stream by the name and offset of its record: file
// systems, encrypted, redacted and deduplicated streams, and several streams in one file.
//
// Source: OpenZFS, include/sys/zfs_ioctl.h (dmu_replay_record_t) and
// module/zfs/dmu_send.c; SmartOS writes the same format.
package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"bakeoff/base/fault"
)

// Disk is where a volume is written; *os.File is one.
type Disk interface {
	io.WriterAt
	Truncate(size int64) error
}

// Volume describes a stream.
type Volume struct {
	Name string // of the snapshot: zones/x@final
	GUID uint64 // of the snapshot
	From uint64 // GUID of the snapshot that an incremental stream changes; 0 of a full one
	Size int64  // of the disk, in bytes
	// Written is how many bytes of data the stream has.
	Written int64
}

// MaxDisk bounds the size of a disk, in bytes.
const MaxDisk = 1 << 40

// record is the size of a dmu_replay_record_t, and sumAt where its own checksum begins.
const (
	record = 312
	sumAt  = record - 32
)

const magic = 0x2F5bacbac

// Types of records.
const (
	begin = iota
	object
	freeObjects
	write
	free
	end
	writeByRef
	spill
	writeEmbedded
	objectRange
	redact
)

var names = []string{
	"BEGIN",
	"OBJECT",
	"FREEOBJECTS",
	"WRITE",
	"FREE",
	"END",
	"WRITE_BYREF",
	"SPILL",
	"WRITE_EMBEDDED",
	"OBJECT_RANGE",
	"REDACT",
}

// Features of a stream.
const (
	embedData        = 1 << 16
	lz4Blocks        = 1 << 17
	largeBlocks      = 1 << 19
	compressedBlocks = 1 << 22
	largeDnode       = 1 << 23
	zstdBlocks       = 1 << 25
	saSpill          = 1 << 2
	decoded          = embedData | lz4Blocks | largeBlocks | compressedBlocks | largeDnode | zstdBlocks | saSpill
)

// refused names features that change what records mean.
var refused = map[uint64]string{
	1 << 0:  "deduplicated",
	1 << 1:  "deduplicated",
	1 << 20: "resumed",
	1 << 21: "redacted",
	1 << 24: "raw (encrypted)",
}

// The types of a dataset (dmu_objset_type_t), and the objects of a volume.
const (
	fileSystem = 2
	volume     = 3
	dataObject = 1
	propObject = 2
)

// maxBlock bounds a block and the payload of a record.
const maxBlock = 16 << 20

// IsStream tells whether a file that begins with head is a ZFS stream.
func IsStream(head []byte) bool {
	return len(head) >= 16 && orderOf(head) != nil
}

// orderOf is the byte order of a stream that begins with head; nil if it is none.
func orderOf(head []byte) binary.ByteOrder {
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if o.Uint64(head[8:]) == magic && o.Uint32(head) == begin {
			return o
		}
	}
	return nil
}

// Decode writes the volume of a stream to disk. The disk must be empty, or hold base, which the
// stream then must change; the zero Volume is an empty disk. Errors are of kind fault.Invalid for a
// damaged stream and fault.Unsupported for one that is not decoded; they name record and
// offset. After an error the disk is incomplete.
func Decode(r io.Reader, disk Disk, base Volume) (Volume, error) {
	d := &decoder{r: &reader{r: bufio.NewReaderSize(r, 64<<10)}, disk: disk, base: base, end: base.Size}
	for {
		done, err := d.next()
		if err != nil {
			return d.out, d.located(err)
		}
		if done {
			break
		}
	}
	if d.out.Size == 0 {
		return d.out, fault.New(fault.Invalid, "the stream does not say how large the volume is")
	}
	if d.end > d.out.Size {
		return d.out, fault.New(fault.Invalid, "the stream writes at byte %d, past the end of the volume (%d "+
			"bytes)", d.end, d.out.Size)
	}
	return d.out, disk.Truncate(d.out.Size)
}

type decoder struct {
	r    *reader
	disk Disk
	base Volume
	out  Volume
	end  int64 // of the data so far
	// freed bounds the work of a stream that frees the same range again and again.
	freed int64

	at   int64 // where the record begins
	kind uint32
}

// located names the record of an error.
func (d *decoder) located(err error) error {
	name := "a record of the unknown type " + fmt.Sprint(d.kind)
	if int(d.kind) < len(names) {
		name = "record " + names[d.kind]
	}
	return fault.Op(fmt.Sprintf("ZFS stream, %s at byte %d", name, d.at), err)
}

func damaged(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

func unsupported(format string, args ...any) error {
	return fault.New(fault.Unsupported, format, args...)
}

// next decodes one record with its payload; done tells that it was the last.
func (d *decoder) next() (done bool, err error) {
	d.at = d.r.read
	first := d.r.order == nil
	before := d.r.sum
	b, err := d.r.header()
	if err != nil {
		d.kind = begin
		if !first {
			d.kind = end
			err = fmt.Errorf("the stream ends before this record: %w", err)
		}
		return false, err
	}
	o := d.r.order
	d.kind = o.Uint32(b)
	payload := int64(o.Uint32(b[4:]))
	u64 := func(at int) uint64 { return o.Uint64(b[8+at:]) }
	u32 := func(at int) uint32 { return o.Uint32(b[8+at:]) }
	if first != (d.kind == begin) {
		return false, damaged("the record is out of place")
	}
	switch d.kind {
	case begin:
		return false, d.begin(b, payload)
	case object:
		return false, d.skip(int64(u32(20)+7) &^ 7)
	case freeObjects:
		if lo, n := u64(0), u64(8); lo <= dataObject && n > dataObject-lo {
			return false, d.zero(0, d.end)
		}
		return false, nil
	case write:
		size, compression := u64(24), b[8+42]
		if compression != 0 && u64(88) != 0 {
			size = u64(88)
		}
		return false, d.write(u64(0), u64(16), u64(24), size, compression)
	case free:
		if u64(0) != dataObject {
			return false, nil
		}
		return false, d.free(u64(8), u64(16))
	case writeEmbedded:
		if b[8+33] != 0 {
			return false, unsupported("its embedded type %d is not data", b[8+33])
		}
		return false, d.embedded(u64(0), u64(8), uint64(u32(40)), uint64(u32(44)), b[8+32])
	case spill:
		size := u64(8)
		if b[8+25] != 0 && u64(32) != 0 {
			size = u64(32)
		}
		if size > maxBlock {
			return false, damaged("its data of %d bytes are too large", size)
		}
		return false, d.skip(int64(size))
	case end:
		var want sum
		for i := range want {
			want[i] = u64(8 * i)
		}
		if want != before {
			return false, damaged("the checksum of the stream is wrong")
		}
		if _, err := d.r.r.Peek(1); !errors.Is(err, io.EOF) {
			return false, unsupported("another stream follows: bakeoff reads one stream per file")
		}
		return true, nil
	}
	return false, unsupported("bakeoff does not decode records of this type")
}

// begin reads what the stream is.
func (d *decoder) begin(b []byte, payload int64) error {
	o := d.r.order
	info := o.Uint64(b[16:])
	features := info >> 2 & (1<<30 - 1)
	name, _, _ := bytes.Cut(b[56:312], []byte{0})
	d.out = Volume{Name: string(name), GUID: o.Uint64(b[40:]), From: o.Uint64(b[48:])}
	if info&3 != 1 {
		return unsupported("it holds several streams, or properties; send one snapshot, without -R and -p")
	}
	for bit := uint64(1); bit <= features; bit <<= 1 {
		if why := refused[bit]; features&bit != 0 && why != "" {
			return unsupported("the stream is %s", why)
		}
	}
	if more := features &^ decoded &^ (1<<26 | 1<<27 | 1<<28); more != 0 {
		return unsupported("the stream has features that bakeoff does not know (%#x)", more)
	}
	switch kind := o.Uint32(b[32:]); kind {
	case volume:
	case fileSystem:
		return unsupported("the stream is of a file system, which only a ZFS pool can receive, and not of a volume")
	default:
		return unsupported("the stream is of a dataset of type %d and not of a volume", kind)
	}
	switch {
	case d.out.From == d.base.GUID:
		d.out.Size = d.base.Size
	case d.out.From == 0:
		return damaged("the stream is a full one, not a change of another snapshot")
	default:
		return damaged("the stream changes the snapshot with GUID %d, which the disk does not hold", d.out.From)
	}
	if payload > 1<<20 {
		return damaged("%d bytes of properties are too many", payload)
	}
	return d.skip(payload)
}

func (d *decoder) skip(n int64) error {
	_, err := d.r.payload(n)
	return err
}

// write is a block with its data. size is that of the payload, and length of the block.
func (d *decoder) write(of, at, length, size uint64, compression byte) error {
	if size > maxBlock || length > maxBlock {
		return damaged("a block of %d bytes is too large", max(size, length))
	}
	b, err := d.r.payload(int64(size))
	if err != nil || of != dataObject && of != propObject {
		return err
	}
	if b, err = expand(b, int(length), compression); err != nil {
		return err
	}
	return d.put(of, at, b)
}

// embedded is a block with its data in its block pointer.
func (d *decoder) embedded(of, at, length, size uint64, compression byte) error {
	if size > 112 || length > maxBlock { // BPE_PAYLOAD_SIZE
		return damaged("embedded data of %d bytes are too large", max(size, length))
	}
	b, err := d.r.payload(int64(size+7) &^ 7)
	if err != nil || of != dataObject && of != propObject {
		return err
	}
	if b, err = expand(b[:size], int(length), compression); err != nil {
		return err
	}
	return d.put(of, at, b)
}

// put writes a block of the disk, or reads the size of the volume.
func (d *decoder) put(of, at uint64, b []byte) error {
	if of == propObject {
		if at == 0 {
			if size := zapSize(b, d.r.order); size != 0 {
				if size > MaxDisk {
					return unsupported("a volume of %d bytes is too large", size)
				}
				d.out.Size = int64(size)
			}
		}
		return nil
	}
	if at > MaxDisk-uint64(len(b)) {
		return damaged("the block at %d is outside of the disk", at)
	}
	d.out.Written += int64(len(b))
	to := int64(at) + int64(len(b))
	if int64(at) < d.end || len(bytes.TrimLeft(b, "\x00")) > 0 { // else it is a hole
		if _, err := d.disk.WriteAt(b, int64(at)); err != nil {
			return err
		}
	}
	d.end = max(d.end, to)
	return nil
}

// free frees a range of the disk; the length of all ones means up to the end.
func (d *decoder) free(at, length uint64) error {
	if at >= uint64(d.end) {
		return nil
	}
	to := uint64(d.end)
	if length < to-at {
		to = at + length
	}
	return d.zero(int64(at), int64(to))
}

// zero makes a range zero.
func (d *decoder) zero(from, to int64) error {
	if to == d.end {
		d.end = from
		return d.disk.Truncate(from)
	}
	if d.freed += to - from; d.freed > 2*d.end {
		return damaged("the stream frees the same range again and again")
	}
	for b := make([]byte, min(to-from, 1<<20)); from < to; from += int64(len(b)) {
		b = b[:min(to-from, int64(len(b)))]
		if _, err := d.disk.WriteAt(b, from); err != nil {
			return err
		}
	}
	return nil
}

// zapSize reads the property size from the first block of a volume's properties, a micro ZAP; 0 if
// it has none.
//
// Source: OpenZFS, include/sys/zap_impl.h (mzap_phys_t).
func zapSize(b []byte, o binary.ByteOrder) uint64 {
	const micro, entry = 1<<63 + 3, 64
	if len(b) < 2*entry || o.Uint64(b) != micro {
		return 0
	}
	for e := range bytesChunks(b[entry:], entry) {
		name, _, _ := bytes.Cut(e[14:], []byte{0})
		if string(name) == "size" {
			return o.Uint64(e)
		}
	}
	return 0
}
