package probe

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"bakeoff/base/facts"
)

// Functions and classes that golang.org/x/sys/windows does not have.
var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	getProcessMemoryInfo = kernel32.NewProc("K32GetProcessMemoryInfo")
	getThreadTimes       = kernel32.NewProc("GetThreadTimes")
	globalMemoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
	getFirmwareTable     = kernel32.NewProc("GetSystemFirmwareTable")
)

// UsageOf converts the resource usage of a finished child. Windows counts CPU time in
// steps of its timer, 1/64 s by default. It does not count what else getrusage(2) does.
//
// Source: GetProcessTimes of the Windows API.
func UsageOf(ru *syscall.Rusage) facts.Usage {
	return facts.Usage{UserSeconds: ticks(ru.UserTime), SystemSeconds: ticks(ru.KernelTime)}
}

// ticks converts a duration in units of 100 ns to seconds.
func ticks(t syscall.Filetime) float64 {
	return float64(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime)) / 1e7
}

// PeakMemory returns the most memory that a process, also one that has ended, had in
// its working set, in bytes; nil if unknown.
func PeakMemory(process windows.Handle) *float64 {
	var m struct { // PROCESS_MEMORY_COUNTERS
		size, faults     uint32
		peak             uintptr // PeakWorkingSetSize
		_, _, _, _, _, _ uintptr
		_                uintptr
	}
	m.size = uint32(unsafe.Sizeof(m))
	if ok, _, _ := getProcessMemoryInfo.Call(uintptr(process), uintptr(unsafe.Pointer(&m)), uintptr(m.size)); ok == 0 {
		return nil
	}
	return number(int64(m.peak))
}

// Process returns what this process and, if it is the first of a job, its children have
// spent.
func Process() (facts.Usage, error) {
	return SpentBy(0, windows.CurrentProcess())
}

// SpentBy returns what the processes of a job have spent; 0 is the job of this process.
// Its memory is that of process. Where the system does not account for jobs, as Wine, the
// result is what process itself has spent.
func SpentBy(job, process windows.Handle) (facts.Usage, error) {
	var ru syscall.Rusage
	err := syscall.GetProcessTimes(syscall.Handle(process), &ru.CreationTime, &ru.ExitTime, &ru.KernelTime, &ru.UserTime)
	if err != nil {
		return facts.Usage{}, err
	}
	own := UsageOf(&ru)
	own.MaxRSSBytes = PeakMemory(process)
	if job == 0 && !ownJob {
		return own, nil
	}
	var all struct { // JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
		user, kernel, _, _               int64
		faults, processes, active, ended uint32
	}
	if windows.QueryInformationJobObject(job, windows.JobObjectBasicAccountingInformation, uintptr(unsafe.Pointer(&all)),
		uint32(unsafe.Sizeof(all)), nil) != nil {
		return own, nil
	}
	// The job includes the process, so less means that nothing was accounted.
	if user, system := float64(all.user)/1e7, float64(all.kernel)/1e7; user+system > own.CPUSeconds() {
		own.UserSeconds, own.SystemSeconds = user, system
	}
	return own, nil
}

// ownJob says that the job of this process has no other process than its descendants.
var ownJob bool

// AccountChildren makes Process and Thread include the children that this process starts
// from now on, for which Windows needs a job.
func AccountChildren() {
	job, err := windows.CreateJobObject(nil, nil)
	if err == nil && windows.AssignProcessToJobObject(job, windows.CurrentProcess()) == nil {
		ownJob = true // the handle stays open: the job ends with the process
	}
}

// Thread returns the CPU seconds that the calling thread has used, and those of the
// children of the process since AccountChildren. The caller must have locked its
// goroutine to the thread.
func Thread() (float64, error) {
	var created, ended, kernel, user syscall.Filetime
	ok, _, err := getThreadTimes.Call(uintptr(windows.CurrentThread()), uintptr(unsafe.Pointer(&created)),
		uintptr(unsafe.Pointer(&ended)), uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user)))
	if ok == 0 {
		return 0, err
	}
	own := ticks(kernel) + ticks(user)
	if !ownJob {
		return own, nil
	}
	all, err := Process()
	if err != nil {
		return 0, err
	}
	var self syscall.Rusage
	err = syscall.GetProcessTimes(syscall.Handle(windows.CurrentProcess()), &self.CreationTime, &self.ExitTime,
		&self.KernelTime, &self.UserTime)
	return own + max(0, all.CPUSeconds()-UsageOf(&self).CPUSeconds()), err
}

func number(n int64) *float64 {
	return new(float64(n))
}
