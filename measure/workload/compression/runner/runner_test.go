package runner

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/compression"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/volume"
)

func TestMain(m *testing.M) { workloadtest.Main(m, compression.Loop()) }

// stored is this machine with a volume whose files are counted one by one.
type stored struct{ *workloadtest.Instance }

func (s stored) SettleVolume(_ context.Context, path string) (volume.Usage, error) {
	u := volume.Usage{Took: 5 * time.Millisecond, CompressRatio: 1}
	err := filepath.WalkDir(s.Information.Volumes[path], func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, ierr := d.Info()
			if err = ierr; err == nil {
				u.UsedBytes += (info.Size() + 4095) / 4096 * 4096
			}
		}
		return err
	})
	return u, err
}

func target(t *testing.T) execution.Target {
	out := workloadtest.Local(t)
	out.Subject = stored{out.Subject.(*workloadtest.Instance)}
	return out
}

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{
		Common: param.Values{"files": "30"},
		Target: target,
		// The CPU time of a file system's own workers is not the agent's.
		Partial: true,
		Cells:   []param.Values{{}, {"writers": "3"}, {"writers": "2", "overlap": "true"}},
	})
}

func params(set param.Values) param.Values {
	p := param.Defaults(compression.Loop().Params)
	p["files"] = "20"
	for k, v := range set {
		p[k] = v
	}
	return p
}

// A technology whose volumes cannot be looked at is refused.
func TestNoLookAtTheVolume(t *testing.T) {
	if err := New().Reset(t.Context(), workloadtest.Local(t), params(nil)); !fault.Is(err, fault.Unsupported) {
		t.Errorf("error is %v", err)
	}
}
