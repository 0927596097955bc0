package ssh

import (
	"context"

	"bakeoff/reach/conn/channel"
)

// ReadFile returns a file of at most conn.FileLimit bytes.
func (c *Conn) ReadFile(ctx context.Context, path string) (b []byte, err error) {
	err = c.files(ctx, func(f channel.Files) error {
		b, err = f.ReadFile(ctx, path)
		return err
	})
	return b, err
}

// WriteFile writes to an existing file in one write.
func (c *Conn) WriteFile(ctx context.Context, path string, data []byte) error {
	return c.files(ctx, func(f channel.Files) error { return f.WriteFile(ctx, path, data) })
}

// Mkdir creates one directory.
func (c *Conn) Mkdir(ctx context.Context, path string) error {
	return c.files(ctx, func(f channel.Files) error { return f.Mkdir(ctx, path) })
}

// Rmdir removes one empty directory.
func (c *Conn) Rmdir(ctx context.Context, path string) error {
	return c.files(ctx, func(f channel.Files) error { return f.Rmdir(ctx, path) })
}

// ReadDir returns the names in a directory, sorted.
func (c *Conn) ReadDir(ctx context.Context, path string) (names []string, err error) {
	err = c.files(ctx, func(f channel.Files) error {
		names, err = f.ReadDir(ctx, path)
		return err
	})
	return names, err
}

// Remove removes path and everything in it, without following links. A path
// that does not exist is not an error.
func (c *Conn) Remove(ctx context.Context, path string) error {
	return c.files(ctx, func(f channel.Files) error { return f.Remove(ctx, path) })
}

// Keep writes a small file atomically and syncs it.
func (c *Conn) Keep(ctx context.Context, path string, data []byte) error {
	return c.files(ctx, func(f channel.Files) error { return f.Keep(ctx, path, data) })
}

func (c *Conn) files(ctx context.Context, do func(channel.Files) error) error {
	return c.through(ctx, func(ch *channel.Conn) error { return do(channel.Files{Conn: ch}) })
}
