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

// Files is an optional interface of a Conn that can touch small files, above
// all those of /sys and /proc, without starting a program for each. Paths are
// absolute. What does not exist is an error of kind fault.NotFound.
type Files interface {
	// ReadFile returns the content, which is at most FileLimit long.
	ReadFile(ctx context.Context, path string) ([]byte, error)
	// WriteFile gives data in one write to a file that exists, as the
	// kernel's interface files want it. It does not truncate it.
	WriteFile(ctx context.Context, path string, data []byte) error
	// Mkdir makes one directory; one that exists already is fine.
	Mkdir(ctx context.Context, path string) error
	// Rmdir removes one empty directory; one that does not exist is fine.
	Rmdir(ctx context.Context, path string) error
	// ReadDir returns the names in a directory, sorted.
	ReadDir(ctx context.Context, path string) ([]string, error)
}

// FilesOf returns c's own Files where it has them, and otherwise ones that
// execute the programs of any POSIX system: cat, dd, mkdir, rmdir, ls.
func FilesOf(c Conn) Files {
	if f, ok := c.(Files); ok {
		return f
	}
	return programs{c}
}

type programs struct{ c Conn }

// run executes argv and tells a path that is not there by asking test(1),
// not by reading messages, which differ from system to system.
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
		return nil, fault.New(fault.Lab, "%s: longer than %d bytes", path, FileLimit)
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
