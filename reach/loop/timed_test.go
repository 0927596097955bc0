package loop

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
)

// machine is a fake computer on which a unit of work takes a known time.
type machine struct {
	at, unit, call time.Duration
	rate           func(at time.Duration) float64 // of time against unit; nil: 1
	done           float64
}

func (m *machine) do(n int) error {
	r := 1.0
	if m.rate != nil {
		r = m.rate(m.at)
	}
	m.at += m.call + time.Duration(float64(m.unit)*float64(n)*r)
	m.done += float64(n)
	return nil
}

func (m *machine) timed(d time.Duration) Timed {
	return Timed{
		For: d, Do: m.do,
		Clock: func() time.Duration { m.at += 30; return m.at },
		CPU:   func() (float64, error) { return m.at.Seconds() / 2, nil },
	}
}

func TestTimedCountsWork(t *testing.T) {
	for _, unit := range []time.Duration{3, 100, 47 * time.Microsecond, 30 * time.Millisecond} {
		m := &machine{unit: unit}
		got, err := m.timed(time.Second).Run(context.Background())
		if err != nil {
			t.Fatalf("%v: %v", unit, err)
		}
		want := 1 / unit.Seconds()
		if math.Abs(got.Rate()/want-1) > 0.002 {
			t.Errorf("%v: %g units a second, want %g", unit, got.Rate(), want)
		}
		if got.Elapsed < time.Second || got.Elapsed > time.Second+unit+20*time.Millisecond {
			t.Errorf("%v: timed part took %v", unit, got.Elapsed)
		}
		if math.Abs(got.Scaling-2) > 0.01 {
			t.Errorf("%v: scaling %g", unit, got.Scaling)
		}
		if math.Abs(*got.CPUSeconds-got.Elapsed.Seconds()/2) > 1e-3 {
			t.Errorf("%v: CPU %g of %v", unit, *got.CPUSeconds, got.Elapsed)
		}
		var sum float64
		for _, w := range got.Windows {
			sum += w
		}
		if len(got.Windows) != windows || math.Abs(sum/got.Work-1) > 0.06 {
			t.Errorf("%v: %d windows hold %g of %g units", unit, len(got.Windows), sum, got.Work)
		}
	}
}

// A loop whose body the compiler removed costs the call and nothing else.
func TestTimedCatchesAnEmptyLoop(t *testing.T) {
	for name, m := range map[string]*machine{
		"no time at all":          {},
		"a constant, as if empty": {call: 300 * time.Microsecond},
		"a short constant":        {call: 5},
	} {
		_, err := m.timed(100 * time.Millisecond).Run(context.Background())
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "optimized") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// Work that grows faster than it should is done: the ratio is in the result,
// for who looks at it, and the trial is no failure of the subject.
func TestTimedReportsUnevenWork(t *testing.T) {
	m := &machine{unit: 1}
	timed := m.timed(100 * time.Millisecond)
	do := timed.Do
	timed.Do = func(n int) error { return do(n * n) }
	if got, err := timed.Run(context.Background()); err != nil || got.Scaling < 3.5 || got.Scaling > 4.5 {
		t.Errorf("scaling %g, error %v; want about 4 and none", got.Scaling, err)
	}
}

// The real thing: the compiler removes this loop's body, as a compiler did to
// the event of a well-known benchmark whose counter nobody used.
func TestTimedCatchesARealEmptyLoop(t *testing.T) {
	_, err := Timed{For: 10 * time.Millisecond, Do: func(int) error { return nil }}.Run(context.Background())
	if !fault.Is(err, fault.Subject) {
		t.Errorf("error is %v", err)
	}
}

func TestTimedForgivesNoise(t *testing.T) {
	// Every third call is interrupted for eight times as long.
	m := &machine{unit: time.Microsecond}
	calls := 0
	m.rate = func(time.Duration) float64 {
		if calls++; calls%3 == 0 {
			return 8
		}
		return 1
	}
	if got, err := m.timed(100 * time.Millisecond).Run(context.Background()); err != nil || got.Scaling < 1.9 ||
		got.Scaling > 2.1 {
		t.Errorf("scaling %g, error %v", got.Scaling, err)
	}
}

// What starting the work costs may be more than a batch of it: with more units
// it is seen that they take time.
func TestTimedForgivesAStart(t *testing.T) {
	m := &machine{unit: time.Microsecond, call: 3 * time.Millisecond}
	if got, err := m.timed(100 * time.Millisecond).Run(context.Background()); err != nil || got.Scaling < 1.6 {
		t.Errorf("scaling %g, error %v", got.Scaling, err)
	}
}

// A busy scheduler's turns may meet n units every time and twice as many never;
// the CPU time of both tells that the work was done, and that it was not.
func TestTimedForgivesTurnsThatMeetOneSide(t *testing.T) {
	m := &machine{unit: time.Microsecond}
	timed, waited := m.timed(100*time.Millisecond), time.Duration(0)
	timed.Largest = 600 // otherwise there would be more units until it did not matter
	do, single := timed.Do, 0
	timed.Do = func(n int) error {
		// The batch is found undisturbed; what is then called the second time
		// with one number of units is the check.
		if single == 0 && m.done > 0 && n >= 500 {
			single = n
		}
		if n == single {
			m.at += 400 * time.Microsecond
			waited += 400 * time.Microsecond
		}
		return do(n)
	}
	timed.CPU = func() (float64, error) { return (m.at - waited).Seconds(), nil }
	if got, err := timed.Run(context.Background()); err != nil || got.Scaling < 1.9 || got.Scaling > 2.1 {
		t.Errorf("scaling %g, error %v", got.Scaling, err)
	}
	empty := &machine{call: 300 * time.Microsecond}
	timed = empty.timed(100 * time.Millisecond)
	timed.CPU = func() (float64, error) { return empty.at.Seconds(), nil }
	if _, err := timed.Run(context.Background()); !fault.Is(err, fault.Subject) {
		t.Errorf("an empty loop: %v", err)
	}
}

// The clock of an emulated guest may lose the time that twice the work takes. Work that takes long
// was done nevertheless: the ratio is in the result, and the trial did not fail.
func TestTimedForgivesAClockThatLosesTime(t *testing.T) {
	m := &machine{}
	timed, last := m.timed(100*time.Millisecond), 0
	timed.Do = func(n int) error {
		took := time.Duration(n) * 100 * time.Microsecond
		if n == 2*last {
			took /= 2
		}
		last = n
		m.at += took
		return nil
	}
	timed.CPU = func() (float64, error) { return 0, errors.New("this system does not count it") }
	if got, err := timed.Run(context.Background()); err != nil || got.Scaling > 1.1 {
		t.Errorf("scaling %g, error %v; want about 1 and none", got.Scaling, err)
	}
}

// The clock of a busy machine may tick between two reads of it by chance, where the work is much
// shorter than a tick. More units show that the work takes time.
func TestTimedForgivesACoarseClock(t *testing.T) {
	const tick = 16 * time.Millisecond
	m := &machine{unit: 100 * time.Microsecond}
	timed, singles, doubles, checked := m.timed(200*time.Millisecond), 0, 0, false
	timed.Begin = func() error { checked = true; return nil }
	timed.Clock = func() time.Duration { return m.at.Truncate(tick) }
	timed.CPU = func() (float64, error) { return 0, errors.New("this system does not count it") }
	timed.Do = func(n int) error {
		if checked {
			return m.do(n)
		}
		m.at = m.at.Truncate(tick) // a try begins at a tick
		switch n {
		case 9:
			if singles++; singles <= 3 { // in the search for a batch: it takes 9 units
				m.at += tick
			}
		case 18:
			if doubles++; doubles <= 21 { // in all rounds but the last one, with 9 units in each
				m.at += tick
			}
		}
		return m.do(n)
	}
	if got, err := timed.Run(context.Background()); err != nil || got.Scaling < 1.6 {
		t.Errorf("scaling %g, error %v", got.Scaling, err)
	}
}

// A change in the middle must show in the windows, on its side.
func TestWindowsShowAChange(t *testing.T) {
	m := &machine{unit: time.Microsecond}
	timed := m.timed(time.Second)
	var from time.Duration
	m.rate = func(at time.Duration) float64 {
		if from > 0 && at > from+500*time.Millisecond {
			return 2
		}
		return 1
	}
	timed.Begin = func() error { from = m.at; return nil }
	got, err := timed.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range got.Windows {
		want := got.Elapsed.Seconds() / windows * 1e6
		if i >= windows/2 {
			want /= 2
		}
		if i != windows/2 && i != windows/2-1 && math.Abs(w/want-1) > 0.02 {
			t.Errorf("window %d has %g units, want %g", i, w, want)
		}
	}
}

func TestTimedMergesRecords(t *testing.T) {
	m := &machine{unit: 100 * time.Microsecond}
	timed := m.timed(10 * time.Second)
	timed.Largest = 1
	got, err := timed.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got.Scaling != 0 {
		t.Errorf("scaling %g of a unit that cannot be doubled", got.Scaling)
	}
	for i, w := range got.Windows {
		if math.Abs(w/(got.Work/windows)-1) > 0.01 {
			t.Errorf("window %d has %g of %g units", i, w, got.Work)
		}
	}
}

func TestTimedEndsEarly(t *testing.T) {
	m := &machine{unit: time.Microsecond}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.timed(time.Second).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	wrong := errors.New("wrong answer")
	timed := m.timed(time.Second)
	timed.Do = func(int) error { return wrong }
	if _, err := timed.Run(context.Background()); !errors.Is(err, wrong) {
		t.Errorf("error is %v", err)
	}
	timed = m.timed(time.Second)
	timed.Finish = func() error { return wrong }
	if _, err := timed.Run(context.Background()); !errors.Is(err, wrong) {
		t.Errorf("error of Finish is %v", err)
	}
}

// A loop that runs out of work ends before its time, with all that it did.
func TestTimedEndsWithEnough(t *testing.T) {
	m := &machine{unit: time.Millisecond}
	timed := m.timed(time.Second)
	timed.Largest = 1
	begun := false
	timed.Begin = func() error { begun, m.done = true, 0; return nil }
	timed.Do = func(n int) error {
		m.do(n)
		if begun && m.done == 40 {
			return ErrEnough
		}
		return nil
	}
	got, err := timed.Run(context.Background())
	if err != nil || got.Work != 40 || got.Elapsed > 41*time.Millisecond || got.Elapsed < 40*time.Millisecond {
		t.Errorf("%+v, error %v", got, err)
	}
}
