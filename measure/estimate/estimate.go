package estimate

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"bakeoff/base/fault"
)

// Schema is the schema of an Estimate.
const Schema = "bakeoff/compress-estimate/v1"

// window is how much of a file is read at once, in bytes, and the unit of a
// sample: a multiple of every record size and of the extents of btrfs.
const window = 1 << 20

// Options say what to estimate.
type Options struct {
	Algorithms []Algorithm
	// Records are the record sizes of ZFS in bytes, powers of two from 512 B
	// to 1 MiB.
	Records []int64
	Pool    Pool
	Force   bool // btrfs: compress-force
	// SampleBytes is about how much of a larger folder is read, as a random
	// sample. 0: everything.
	SampleBytes int64
	Seed        uint64 // of the sample
	Workers     int    // 0: one for each CPU
	// Program is the one that was passed to Algorithms.
	Program *Program
	// Progress reports progress at intervals; calls do not overlap.
	Progress func(done, total int64)
	Now      func() time.Time
}

// Estimate is the result of an estimate.
type Estimate struct {
	Schema string `json:"schema"`
	Folder string `json:"folder"`
	// Files and Bytes are the totals of all regular files.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// SampledBytes is how much was read; less than Bytes means a sample.
	SampledBytes int64 `json:"sampled_bytes"`
	// Unread counts files that could not be read or that changed during the
	// run.
	Unread int64 `json:"unread"`
	Pool   Pool  `json:"pool"`
	Rows   []Row `json:"rows"`
}

// Row is one algorithm with one record size.
type Row struct {
	Algorithm
	Record int64 `json:"record_bytes"` // of btrfs: the largest extent
	// Ratio is the ratio that the file system itself reports: logical
	// blocks, with the padding of the last one, to physical ones. For ZFS
	// it is the property compressratio, which includes the metadata of
	// files.
	Ratio float64 `json:"ratio"`
	// Error is half of the 95 % confidence interval of Ratio; 0 if
	// everything was read.
	Error float64 `json:"error"`
	// Space is the ratio of the bytes of the files to the bytes allocated
	// for them; null if nothing is allocated.
	Space *float64 `json:"space"`
	// StoredBytes is the estimated size of all files on the file system.
	StoredBytes int64 `json:"stored_bytes"`
	// BytesPerSecond is the compression speed of one CPU of this machine:
	// that of this program's compressors, or for zstd that of its own
	// in-memory benchmark on the first MiB; null if there is nothing to
	// compress.
	BytesPerSecond *float64 `json:"bytes_per_second"`
}

// Folder estimates the regular files in a folder. It does not follow links.
func Folder(ctx context.Context, dir string, o Options) (Estimate, error) {
	e := Estimate{Schema: Schema, Folder: dir, Pool: o.Pool}
	if err := checkOptions(&o); err != nil {
		return e, err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fault.New(fault.NotFound, "folder %s does not exist", dir)
	}
	if err != nil {
		return e, fault.WithFix(fault.Wrap(fault.Invalid, "", err), "choose a folder that you can read")
	}
	defer root.Close()
	err = walkFiles(ctx, root, func(_ string, size int64) error {
		e.Files++
		e.Bytes += size
		return nil
	})
	if err != nil {
		return e, fault.Op("folder "+dir, err)
	}
	if e.Bytes == 0 {
		return e, fault.WithFix(fault.New(fault.Invalid, "%s has no files, or only empty files", dir),
			"choose a folder with the files to store")
	}
	p := pool{root: root, o: o, total: e.Bytes, chance: 1}
	if o.SampleBytes > 0 && e.Bytes > o.SampleBytes {
		p.chance = float64(o.SampleBytes) / float64(e.Bytes)
		p.total = o.SampleBytes
	}
	if err := p.runWorkers(ctx); err != nil {
		return e, fault.Op("folder "+dir, err)
	}
	e.SampledBytes, e.Unread = p.read, p.unread
	if n := p.tallies[0].n; n == 0 || n < 2 && p.chance < 1 {
		return e, fault.New(fault.Unsupported, "no file in %s could be read, or the sample is too small", dir)
	}
	for i, t := range p.tallies {
		e.Rows = append(e.Rows, t.rowFor(p.specs[i], e, p.chance < 1))
	}
	return e, nil
}

func checkOptions(o *Options) error {
	if len(o.Algorithms) == 0 {
		return fault.New(fault.Invalid, "no algorithm given")
	}
	for _, r := range o.Records {
		if r < zfsSector || r > window || r&(r-1) != 0 {
			return fault.New(fault.Invalid, "a record size must be a power of two from 512 to %[2]d bytes (got %[1]d)", r,
				window)
		}
	}
	o.Pool.Ashift = cmp.Or(o.Pool.Ashift, 12)
	if o.Pool.Ashift < 9 || o.Pool.Ashift > 16 {
		return fault.New(fault.Invalid, "ashift must be from 9 (512 bytes) to 16 (64 KiB) (got %d)", o.Pool.Ashift)
	}
	if o.Workers < 1 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Program == nil && slices.ContainsFunc(o.Algorithms, func(a Algorithm) bool { return a.level > 0 }) {
		return fault.New(fault.Invalid, "an algorithm requires the program zstd, and Options.Program is missing")
	}
	slices.Sort(o.Records)
	return nil
}

// walkFiles visits the regular files in the order of their names.
func walkFiles(ctx context.Context, root *os.Root, do func(name string, size int64) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			if name == "." {
				return err
			}
			return nil // removed during the walk: there is nothing to store
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		return do(name, info.Size())
	})
}

// spec is the algorithm and the record size of a row.
type spec struct {
	Algorithm
	record int64
}

// rowSpecs lists the rows: the records of one algorithm in ascending order.
func rowSpecs(o Options) []spec {
	var out []spec
	for _, a := range o.Algorithms {
		if a.FileSystem == Btrfs {
			out = append(out, spec{a, btrfsChunk})
			continue
		}
		for _, r := range o.Records {
			out = append(out, spec{a, r})
		}
	}
	slices.SortStableFunc(out, func(a, b spec) int { return cmp.Compare(b.FileSystem, a.FileSystem) }) // zfs first
	return out
}

// tally adds up the units of the sample: windows of files.
type tally struct {
	n                            float64
	bytes, logical, physical     float64
	allocated                    float64
	logical2, physical2, product float64 // sums of squares and of products
	coded                        int64
	spent                        time.Duration
}

// addUnit counts one unit; first says that it is the first of a file, and metadata
// is the size of what is stored in addition.
func (t *tally) addUnit(bytes int64, b block, first bool, metadata float64) {
	l, p := float64(b.logical), float64(b.physical)
	t.n++
	if first {
		l, p = l+metadata, p+metadata
	}
	t.bytes += float64(bytes)
	t.logical += l
	t.physical += p
	t.allocated += float64(b.allocated)
	t.logical2 += l * l
	t.physical2 += p * p
	t.product += l * p
}

func (t *tally) addTally(o tally) {
	t.n += o.n
	t.bytes += o.bytes
	t.logical += o.logical
	t.physical += o.physical
	t.allocated += o.allocated
	t.logical2 += o.logical2
	t.physical2 += o.physical2
	t.product += o.product
	t.coded += o.coded
	t.spent += o.spent
}

func (t tally) rowFor(s spec, e Estimate, sampled bool) Row {
	r := Row{Algorithm: s.Algorithm, Record: s.record, Ratio: 1}
	if t.physical > 0 {
		r.Ratio = t.logical / t.physical
	}
	if sampled {
		r.Error = 1.96 * t.standardError(r.Ratio, float64(e.SampledBytes)/float64(e.Bytes))
	}
	if t.allocated > 0 {
		r.Space = new(t.bytes / t.allocated)
		r.StoredBytes = int64(t.allocated * float64(e.Bytes) / t.bytes)
	}
	if t.spent > 0 && t.coded > 0 {
		r.BytesPerSecond = new(float64(t.coded) / t.spent.Seconds())
	}
	return r
}

// standardError is the standard error of a ratio of two sums over a sample;
// part is the sampled share.
//
// Source: Cochran, Sampling Techniques, 6.4: the linearized ratio estimator.
func (t tally) standardError(r, part float64) float64 {
	if t.n < 2 || t.physical == 0 {
		return 0 // nothing is stored: there is no error
	}
	residual := max(0, t.logical2-2*r*t.product+r*r*t.physical2)
	return math.Sqrt(residual*t.n/(t.n-1)*max(0, 1-part)) / t.physical
}
