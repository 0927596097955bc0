package kernel

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The places of fields in the setup header of a bzImage.
//
// Source: Linux Documentation/arch/x86/boot.rst.
const (
	setupSectors  = 0x1f1
	setupMagic    = 0x202
	setupProtocol = 0x206
	setupVersion  = 0x20e
	setupXLoad    = 0x236 // from protocol 2.12 on
	setupCmdline  = 0x238 // from protocol 2.06 on
	setupPayload  = 0x248 // from protocol 2.08 on: offset and length
	setupEnd      = 0x250
)

func isBzImage(b []byte) bool { return at(b, setupMagic, "HdrS") && len(b) >= setupEnd }

// bzImage reads the setup header and the kernel in it.
func (i *Info) bzImage(image []byte) {
	le := binary.LittleEndian
	protocol := le.Uint16(image[setupProtocol:])
	i.System, i.Arch = Linux, "386"
	i.BootProtocol = fmt.Sprintf("%d.%02d", protocol>>8, protocol&0xff)
	if protocol >= 0x20c && le.Uint16(image[setupXLoad:])&1 != 0 {
		i.Arch = "amd64"
	}
	i.CommandLineBytes = 255
	if protocol >= 0x206 {
		i.CommandLineBytes = int64(le.Uint32(image[setupCmdline:]))
	}
	if o := 0x200 + int(le.Uint16(image[setupVersion:])); o > 0x200 && o < len(image) {
		i.Banner = line(image[o:])
		i.Version, _, _ = strings.Cut(i.Banner, " ")
	}
	i.Packed = &Packed{}
	if protocol < 0x208 {
		i.Packed.Error = "the boot protocol " + i.BootProtocol + " does not say where the kernel is"
		return
	}
	packed, err := payload(image)
	if err == nil {
		i.Packed.Bytes = int64(len(packed))
		var out []byte
		if i.Packed.Compression, out, err = unpackPayload(packed); err == nil {
			i.Packed.UnpackedBytes = int64(len(out))
			banner, version, arch := i.Banner, i.Version, i.Arch
			err = i.readELF(out)
			i.System, i.Banner, i.Version, i.Arch = Linux, banner, version, arch
		}
	}
	if err != nil {
		i.Packed.Error = err.Error()
	}
}

// payload returns the compressed kernel in a bzImage.
func payload(image []byte) ([]byte, error) {
	sectors := cmp.Or(int64(image[setupSectors]), 4)
	begin := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(image[setupPayload:]))
	end := begin + int64(binary.LittleEndian.Uint32(image[setupPayload+4:]))
	if begin+4 >= end || end > int64(len(image)) {
		return nil, fmt.Errorf("the header places the packed kernel at bytes %d to %d, but the file has %d "+
			"bytes", begin, end, len(image))
	}
	return image[begin:end], nil
}

// unpackPayload unpacks the kernel in a bzImage. Its last four bytes are the size of the
// unpacked kernel; gzip ends with them by itself.
func unpackPayload(packed []byte) (name string, out []byte, err error) {
	if name = Compression(packed); name == "" {
		return "", nil, fmt.Errorf("unknown compression of the kernel: it begins with % x", packed[:min(len(packed), 6)])
	}
	data := packed
	if name != "gzip" {
		data = packed[:len(packed)-4]
	}
	size := int64(binary.LittleEndian.Uint32(packed[len(packed)-4:]))
	out, err = decompress(name, data)
	switch {
	case err != nil:
		return name, nil, fmt.Errorf("unpack the kernel with %s: %w", name, err)
	case !bytes.HasPrefix(out, []byte(elf.ELFMAG)):
		return name, nil, errors.New("the packed data is not an ELF kernel")
	// The relocations of a kernel with a random address follow the ELF file.
	case size != int64(len(out)):
		return name, nil, fmt.Errorf("unpacking gave %d bytes instead of %d", len(out), size)
	}
	return name, out, nil
}

// line returns the text at the beginning of b: up to 512 bytes, to a zero or the end of
// the line.
func line(b []byte) string {
	b = b[:min(len(b), 512)]
	if end := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' }); end >= 0 {
		b = b[:end]
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(b)), "?")
}
