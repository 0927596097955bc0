package image

import (
	"context"
	"errors"
	"io"
	"os"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/unpack"
	"bakeoff/provision/zfs/stream"
)

// ImportVolume writes the volume of an image of a source to a raw disk, the file to, which must
// not exist. Origins are written first, and the image changes them. Every file is compared with
// its checksum before it is decoded. After an error the disk does not exist.
func (s *Store) ImportVolume(
	ctx context.Context,
	kind source.Source,
	address, id, to string,
) (stream.Volume, error) {
	c, err := s.Asking()
	if err != nil {
		return stream.Volume{}, err
	}
	chain, err := source.Chain(ctx, kind, c, address, id)
	if err != nil {
		return stream.Volume{}, err
	}
	for _, i := range chain {
		if err := s.isVolume(ctx, c, i); err != nil {
			return stream.Volume{}, fault.Op("image "+i.ID, err)
		}
	}
	var v stream.Volume
	err = s.withLayout(ctx, func(l *layout.Layout) error {
		var files []string
		for _, i := range chain {
			path := l.PartialPath(i.Files[0].Sum + " " + i.Files[0].Name)
			if err := c.Download(ctx, i.Files[0], path); err != nil {
				return fault.Op("image "+i.ID, err)
			}
			files = append(files, path)
		}
		v, err = s.DecodeVolume(ctx, files, to)
		if err == nil || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Unsupported) {
			for _, f := range files {
				err = errors.Join(err, remove(f))
			}
		}
		return err
	})
	return v, err
}

// isVolume refuses an image whose file is not a ZFS stream, before much is downloaded.
func (s *Store) isVolume(ctx context.Context, c *source.Client, i source.Image) error {
	if i.Refused != "" || i.Reference != "" || len(i.Files) != 1 {
		return fault.New(fault.Unsupported, "the image is not a volume")
	}
	b, err := c.Head(ctx, i.Files[0], headBytes)
	if err != nil {
		return err
	}
	if !stream.IsStream(startOf(b)) {
		return fault.WithFix(fault.New(fault.Unsupported, "the file of the image is not the ZFS stream of a "+
			"volume"), "remove --disk")
	}
	return nil
}

// DecodeVolume writes a volume to a raw disk, the file to, which must not exist: files are its ZFS
// streams, the full one first, which may be compressed. After an error the disk does not exist.
func (s *Store) DecodeVolume(ctx context.Context, files []string, to string) (v stream.Volume, err error) {
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return v, fault.WithFix(fault.Wrap(fault.Invalid, "", err), "name a new file")
	}
	for _, file := range files {
		if err == nil {
			s.reportProgress("decoding %s", file)
			v, err = decodeOne(ctx, file, out, v)
		}
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		err = errors.Join(err, os.Remove(to))
	}
	return v, err
}

func decodeOne(ctx context.Context, file string, disk stream.Disk, base stream.Volume) (stream.Volume, error) {
	f, err := os.Open(file)
	if err != nil {
		return base, fault.Wrap(fault.NotFound, "", err)
	}
	defer f.Close()
	r, release, err := unpack.Decompress(untilDone{ctx, f})
	if err != nil {
		return base, fault.Op(file, err)
	}
	defer release()
	v, err := stream.Decode(r, disk, base)
	return v, fault.Op(file, errors.Join(err, ctx.Err()))
}

// untilDone is a reader that ends with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

// Read reads from the reader, unless the context has ended.
func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
