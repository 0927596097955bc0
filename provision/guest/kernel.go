package guest

import (
	"bytes"
	"context"
	"io"

	"bakeoff/base/fault"
	"bakeoff/provision/kernel"
	"bakeoff/reach/conn"
)

// UnpackKernel writes the ELF kernel in a file of the host, such as a bzImage, to out.
func UnpackKernel(ctx context.Context, host conn.Conn, file, out string) error {
	var image bytes.Buffer
	if err := host.Pull(ctx, file, &limited{w: &image, left: kernel.MaxImage}); err != nil {
		return err
	}
	elf, err := kernel.Unpack(image.Bytes())
	if err != nil {
		return fault.Wrap(fault.Invalid, "kernel "+file, err)
	}
	return host.Push(ctx, out, 0o644, bytes.NewReader(elf))
}

// limited refuses data that is too long.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fault.New(fault.Invalid, "the kernel is longer than %d bytes", kernel.MaxImage)
	}
	return l.w.Write(p)
}
