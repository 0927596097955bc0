// Package compression copies many small files into a compressing file system:
// how long it takes until they are on the disk, and how much space they use
// there.
package compression

import (
	"fmt"
	"math"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
)

// Volume is the blob with the usage of the volume's file system before and
// after: a Usages.
const Volume = "volume.json"

// Usages is the content of Volume.
type Usages struct {
	Before Usage `json:"before"`
	After  Usage `json:"after"`
}

// Usage is what a file system says about itself: driver.VolumeUsage.
type Usage struct {
	Took          time.Duration `json:"took_ns"` // until it was settled, on the host's clock
	UsedBytes     int64         `json:"used_bytes"`
	CompressRatio float64       `json:"compressratio,omitempty"` // of ZFS; 0: none
}

// Workload is the native loop, between two readings of the volume's usage on
// its host.
type Workload struct {
	workload.NativeParser // of the loop alone
	doc                   workload.Doc
}

// New returns the workload.
func New() Workload {
	inner := workload.Native(workload.Doc{
		Summary: "Copying a mail archive, or any folder, into a compressing file system",
		Metrics: []sample.Metric{sample.LowerRatio("copy", "s",
			"time until the last writer has ended and syncfs(2) has returned; ZFS does much of its work after "+
				"syncfs")},
		Volume: "volume", FromHost: true,
		State: "restored",
		Time: func(p param.Values) time.Duration {
			files := p.Int("files") * max(1, p.Int("writers")*map[bool]int64{true: 1}[p.Bool("overlap")])
			return 100*time.Millisecond + time.Duration(files)*700*time.Microsecond
		},
		Source: []string{
			"The file system is fresh for each block; between trials the copies are deleted, and the deletion " +
				"reaches the disk before the next trial starts",
			"find . | cpio -pdu as published, with one writer and with two that each copy everything (overlap=true)",
			"zfs(8): compressratio, used; statfs(2)",
		},
	}, Loop())
	doc := inner.Doc()
	ratio := func(name, unit, text string, primary bool) sample.Metric {
		return sample.Metric{Name: name, Unit: unit, Better: sample.Higher, Scale: sample.Ratio, Primary: primary, Doc: text}
	}
	doc.Metrics = append([]sample.Metric{
		{Name: "time", Unit: "s", Better: sample.Lower, Scale: sample.Ratio, Primary: true,
			Doc: "time until all copies are on the disk; for ZFS, until the pool has written its transaction group"},
		ratio("ratio", "1",
			"bytes of the files divided by the bytes that the file system allocated for them, metadata included", true),
		ratio("compressratio", "1",
			"the ZFS property compressratio, which counts whole logical blocks and ignores sectors; absent on "+
				"other file systems", false),
		ratio("efficiency", "1/s",
			"the metric ratio divided by the metric time, as in the published table; this quotient weights space "+
				"and time arbitrarily", false),
	}, doc.Metrics...)
	return Workload{inner, doc}
}

// Doc describes the workload.
func (w Workload) Doc() workload.Doc { return w.doc }

// Check refuses a path that is not absolute; only the environment can check
// that the folder exists.
func (w Workload) Check(p param.Values) error {
	if p.Text("folder") == "" {
		return nil
	}
	_, err := sourceFolder(p, loop.Env{})
	return err
}

// Parse extracts the samples of the loop and of the volume's usage.
func (w Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := w.NativeParser.Parse(raw, p)
	if err != nil {
		return nil, err
	}
	more, err := parseTrial(raw, w.NativeParser.Doc(), p)
	return append(more, values...), fault.Op("compression: "+Volume, err)
}

func parseTrial(raw workload.Raw, doc workload.Doc, p param.Values) ([]sample.Value, error) {
	res, err := workload.ParseWork(raw, doc, p)
	if err != nil {
		return nil, err
	}
	b, ok := raw[Volume]
	if !ok {
		return nil, workload.ErrNoBlob
	}
	u, err := decodeUsages(b)
	if err != nil {
		return nil, err
	}
	size := res.Work
	if p.Bool("overlap") {
		size /= float64(p.Int("writers"))
	}
	took := (time.Duration(res.ElapsedNS) + u.After.Took).Seconds()
	ratio := size / float64(u.After.UsedBytes-u.Before.UsedBytes)
	if math.IsInf(ratio, 0) || !(ratio > 0) {
		return nil, fault.New(fault.Subject, "impossible result: %g bytes of files used %d bytes of the file system", size,
			u.After.UsedBytes-u.Before.UsedBytes)
	}
	out := []sample.Value{
		{Metric: "time", Unit: "s", Value: took},
		{Metric: "ratio", Unit: "1", Value: ratio},
		{Metric: "efficiency", Unit: "1/s", Value: ratio / took},
	}
	if u.After.CompressRatio > 0 {
		out = append(out, sample.Value{Metric: "compressratio", Unit: "1", Value: u.After.CompressRatio})
	}
	return out, nil
}

func decodeUsages(b []byte) (u Usages, err error) {
	if err := strictjson.Decode(b, &u); err != nil {
		return u, err
	}
	if u.Before.UsedBytes < 0 || u.After.UsedBytes < 0 || u.After.Took < 0 || u.After.CompressRatio < 0 {
		return u, fmt.Errorf("invalid usage %+v", u)
	}
	return u, nil
}
