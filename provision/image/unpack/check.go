package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"io"

	"bakeoff/base/fault"
)

// Checking is how Check reads.
type Checking struct {
	Limits   Limits      // the zero value is Default
	Most     int64       // bytes of the tar file, after which Check stops; 0 means no bound
	Progress func(int64) // as Options.Progress
	// Entry receives every entry with its clean path; nil discards.
	Entry func(name string, h *tar.Header, content io.Reader) error
}

// Check reads a layer to its end and writes nothing. It refuses what Unpack would refuse
// without looking at the folder: an archive that is damaged or truncated, and entries with
// names or types that no image may have. whole is false if it stopped early.
func Check(ctx context.Context, l Layer, c Checking) (whole bool, err error) {
	if c.Limits == (Limits{}) {
		c.Limits = Default
	}
	read := int64(0)
	s, err := open(ctx, l, c.Limits, func(n int64) {
		if read += n; c.Progress != nil {
			c.Progress(read)
		}
	})
	if err != nil {
		return false, fault.Op(l.Name, err)
	}
	defer s.Close()
	whole, err = c.entries(tar.NewReader(s), s)
	if err == nil && whole {
		err = s.finish()
	}
	return whole, fault.Op(l.Name, err)
}

func (c Checking) entries(archive *tar.Reader, s *stream) (whole bool, err error) {
	n, size := 0, int64(0)
	for ; c.Most == 0 || size < c.Most; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) && n == 0 {
			return true, refusal("the archive holds no file")
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, s.endError(err)
		}
		size += h.Size
		if n >= c.Limits.Entries {
			return false, refusal("the image holds more than %d files", c.Limits.Entries)
		}
		if err := c.entry(h, archive); err != nil {
			return false, fault.Op("entry "+forMessage(h.Name), err)
		}
	}
	return false, nil
}

// entry refuses an entry by its header.
func (c Checking) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := relativePath(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeReg, tar.TypeGNUSparse, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
	case tar.TypeChar, tar.TypeBlock:
		if len(name) < 4 || name[:4] != "dev/" {
			return refusal("the file is a device outside /dev; bakeoff skips devices below /dev and refuses others")
		}
	default:
		return refusal("the file has the unknown type %q", h.Typeflag)
	}
	if name == "" && h.Typeflag != tar.TypeDir {
		return refusal("the root of the image is not a folder")
	}
	if _, _, err := owner(h); err != nil || c.Entry == nil {
		return err
	}
	return c.Entry(name, h, content)
}
