package initramfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxKernel bounds how much of a kernel image is read, in bytes.
const maxKernel = 256 << 20

// KernelVersion reads the release of a Linux kernel image:
// "6.1.0-37-cloud-amd64".
//
// A bzImage has the offset of its version at 0x20e
// (Documentation/arch/x86/boot.rst); an uncompressed kernel has its banner
// "Linux version …" in its data.
func KernelVersion(r io.Reader) (string, error) {
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return "", err
	}
	head = head[:n]
	if len(head) > 0x210 && string(head[0x202:0x206]) == "HdrS" {
		at := 0x200 + int(binary.LittleEndian.Uint16(head[0x20e:]))
		if at >= len(head) {
			return "", fmt.Errorf("the kernel image is damaged: its header places the version at byte %d, but bakeoff read "+
				"only %d bytes", at, len(head))
		}
		return firstWord(head[at:])
	}
	if !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return "", errors.New("the file is neither a bzImage nor an ELF kernel")
	}
	return findBanner(io.LimitReader(io.MultiReader(bytes.NewReader(head), r), maxKernel))
}

// findBanner finds the banner. A format string ("Linux version %s") may precede
// it.
func findBanner(r io.Reader) (string, error) {
	banner := []byte("Linux version ")
	const keep = 256 // what a banner may need beyond the end of a chunk
	buf := make([]byte, 0, 1<<20)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		last := err != nil
		for from := 0; ; {
			i := bytes.Index(buf[from:], banner)
			if i < 0 || !last && from+i > len(buf)-keep {
				break
			}
			from += i + len(banner)
			if v, err := firstWord(buf[from:]); err == nil && v[0] >= '0' && v[0] <= '9' {
				return v, nil
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return "", errors.New("the kernel image contains no version")
		}
		if err != nil {
			return "", err
		}
		buf = buf[:copy(buf, buf[len(buf)-keep:])]
	}
}

// firstWord returns the first word of b. It becomes part of a path, so it
// contains no slash and is not "..".
func firstWord(b []byte) (string, error) {
	i := bytes.IndexFunc(b, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' ||
			r == '_' || r == '+' || r == '~')
	})
	if i < 0 || i > 128 {
		i = min(len(b), 128)
	}
	if w := string(b[:i]); w != "" && w[0] != '.' {
		return w, nil
	}
	return "", errors.New("the kernel's version is not a release name")
}
