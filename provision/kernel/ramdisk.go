package kernel

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"bakeoff/base/fault"
)

// maxFiles bounds the entries of a RAM disk that are counted.
const maxFiles = 1 << 20

// RAMDisk describes an initial RAM disk: archives, one after another, each as it is or
// compressed. Linux unpacks all of them into one root.
type RAMDisk struct {
	Archives []Archive `json:"archives"`
	// Init is set if the RAM disk has /init, which the kernel starts.
	Init bool `json:"init"`
	// Modules counts kernel modules.
	Modules int `json:"modules"`
}

// Archive is one of the archives.
type Archive struct {
	Compression string `json:"compression,omitempty"`
	// Bytes is the size in the file, UnpackedBytes that of the archive.
	Bytes         int64 `json:"bytes"`
	UnpackedBytes int64 `json:"unpacked_bytes"`
	Files         int   `json:"files"`
}

// IsRAMDisk reports whether a file begins as an archive of the form newc does.
func IsRAMDisk(b []byte) bool { return at(b, 0, "070701") || at(b, 0, "070702") }

// InspectRAMDisk reads an initial RAM disk. Errors are of kind fault.Invalid.
func InspectRAMDisk(data []byte) (RAMDisk, error) {
	d := RAMDisk{Archives: []Archive{}}
	if len(data) > MaxImage {
		return d, fault.New(fault.Invalid, "the file has %d bytes; bakeoff reads RAM disks of at most %d", len(data),
			MaxImage)
	}
	for len(data) > 0 {
		if IsRAMDisk(data) {
			a := Archive{}
			n, err := d.walk(data, &a)
			if err != nil {
				return d, err
			}
			a.Bytes, a.UnpackedBytes = int64(n), int64(n)
			d.Archives = append(d.Archives, a)
			data = bytes.TrimLeft(data[n:], "\x00") // archives begin at multiples of some size
			continue
		}
		c := Compression(data)
		if c == "" {
			return d, fault.New(fault.Invalid, "after %d archives the RAM disk has bytes that are not an archive: % x",
				len(d.Archives), data[:min(len(data), 6)])
		}
		inner, err := decompress(c, data)
		if err != nil {
			return d, fault.New(fault.Invalid, "unpack the RAM disk with %s: %w", c, err)
		}
		// A compressed archive has no mark of its end, so all that follows belongs to it.
		a := Archive{Compression: c, Bytes: int64(len(data)), UnpackedBytes: int64(len(inner))}
		for len(inner) > 0 {
			n, err := d.walk(inner, &a)
			if err != nil {
				return d, err
			}
			inner = bytes.TrimLeft(inner[n:], "\x00")
		}
		d.Archives = append(d.Archives, a)
		break
	}
	return d, nil
}

// The header of an entry: 110 characters, of which 13 numbers have 8 hexadecimal digits.
//
// Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst.
const (
	entryHeader   = 110
	entryFileSize = 6 + 6*8
	entryNameSize = 6 + 11*8
	entryTrailer  = "TRAILER!!!"
)

// walk counts the entries of one archive and returns its size.
func (d *RAMDisk) walk(b []byte, a *Archive) (int, error) {
	up := func(n uint64) uint64 { return (n + 3) &^ 3 }
	for o := uint64(0); ; {
		if o > uint64(len(b)) || !IsRAMDisk(b[o:]) || uint64(len(b))-o < entryHeader {
			return 0, fault.New(fault.Invalid, "the RAM disk has no header of an entry at byte %d of an archive", o)
		}
		h := b[o : o+entryHeader]
		size, err1 := strconv.ParseUint(string(h[entryFileSize:entryFileSize+8]), 16, 32)
		length, err2 := strconv.ParseUint(string(h[entryNameSize:entryNameSize+8]), 16, 32)
		dataAt := up(o + entryHeader + length)
		if err1 != nil || err2 != nil || length == 0 || dataAt > uint64(len(b)) || size > uint64(len(b))-dataAt {
			return 0, fault.New(fault.Invalid, "the RAM disk ends in the entry at byte %d of an archive", o)
		}
		name := strings.TrimRight(string(b[o+entryHeader:o+entryHeader+length]), "\x00")
		o = up(dataAt + size)
		if name == entryTrailer {
			return int(min(o, uint64(len(b)))), nil
		}
		if a.Files++; a.Files > maxFiles {
			return 0, fault.New(fault.Invalid, "the RAM disk has more than %d files", maxFiles)
		}
		d.Init = d.Init || path.Clean("/"+name) == "/init"
		if strings.HasSuffix(name, ".ko") || strings.Contains(path.Base(name), ".ko.") {
			d.Modules++
		}
	}
}

// UnpackRAMDisk returns the archives of an initial RAM disk without compression, and
// whether any was compressed. Errors are of kind fault.Invalid.
func UnpackRAMDisk(data []byte) (out []byte, packed bool, err error) {
	if len(data) > MaxImage {
		return nil, false, fault.New(fault.Invalid, "the file has %d bytes; bakeoff reads RAM disks of at most %d", len(data),
			MaxImage)
	}
	for len(data) > 0 {
		if !IsRAMDisk(data) {
			c, inner, err := Decompress(data)
			if err == nil && c == "" {
				err = fault.New(fault.Invalid, "the RAM disk has bytes that are not an archive: % x", data[:min(len(data), 6)])
			}
			return append(out, inner...), true, err
		}
		n, err := (&RAMDisk{}).walk(data, &Archive{})
		if err != nil {
			return nil, false, err
		}
		out = append(out, data[:n]...)
		data = bytes.TrimLeft(data[n:], "\x00")
	}
	return out, false, nil
}
