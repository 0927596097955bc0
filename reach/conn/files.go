package conn

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"bakeoff/base/fault"
)

// FileLimit bounds what ReadFile returns, in bytes.
const FileLimit = 1 << 20

// Files is an optional interface of a Conn that accesses small files, mainly
// those of /sys and /proc, without starting a program for each. Paths are
// absolute. A missing file is an error of kind fault.NotFound.
type Files interface {
	// ReadFile returns the content of a file of at most FileLimit bytes.
	ReadFile(ctx context.Context, path string) ([]byte, error)
	// WriteFile writes data to an existing file in one write, as the
	// kernel's interface files require. It does not truncate the file.
	WriteFile(ctx context.Context, path string, data []byte) error
	// Mkdir creates one directory, unless it exists.
	Mkdir(ctx context.Context, path string) error
	// Rmdir removes one empty directory, if it exists.
	Rmdir(ctx context.Context, path string) error
	// ReadDir returns the names in a directory, sorted.
	ReadDir(ctx context.Context, path string) ([]string, error)
}

// FilesOf returns c itself if it implements Files, and otherwise an
// implementation that runs the programs of any POSIX system: cat, dd, mkdir,
// rmdir, ls.
func FilesOf(c Conn) Files {
	if f, ok := c.(Files); ok {
		return f
	}
	return programs{c}
}

type programs struct{ c Conn }

// run executes argv. It recognizes a missing path by test(1) and not by
// messages, which differ between systems.
func (p programs) run(ctx context.Context, path string, stdin []byte, argv ...string) ([]byte, error) {
	cmd := Command(argv...)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	out, err := OutputOf(ctx, p.c, cmd)
	var ended *ExitError
	if err == nil || ctx.Err() != nil || !errors.As(err, &ended) {
		return out, err
	}
	if exit, terr := p.c.Exec(ctx, Command("test", "-e", path)); terr == nil && exit.Code == 1 {
		return nil, fault.Wrap(fault.NotFound, path, err)
	}
	return nil, err
}

func (p programs) ReadFile(ctx context.Context, path string) ([]byte, error) {
	out, err := p.run(ctx, path, nil, "cat", path)
	if err == nil && len(out) > FileLimit {
		return nil, fault.New(fault.Lab, "%s: the file is longer than %d bytes", path, FileLimit)
	}
	return out, err
}

func (p programs) WriteFile(ctx context.Context, path string, data []byte) error {
	_, err := p.run(ctx, path, data, "dd", "of="+path, "bs=65536", "conv=notrunc")
	return err
}

func (p programs) Mkdir(ctx context.Context, path string) error {
	_, err := p.run(ctx, path, nil, "mkdir", "-p", path)
	return err
}

func (p programs) Rmdir(ctx context.Context, path string) error {
	_, err := p.run(ctx, path, nil, "rmdir", path)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (p programs) ReadDir(ctx context.Context, path string) ([]string, error) {
	out, err := p.run(ctx, path, nil, "ls", "-1A", path)
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}
