package local

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// job holds a program and all its descendants. Windows has no process groups that can be
// killed, and no parent that outlives its children's orphans.
type job struct {
	handle, process windows.Handle
	killed          bool
}

// jobs are those of the programs that Contain holds, by process ID. The handle of the
// process keeps its ID from being used again.
var jobs struct {
	sync.Mutex
	of map[int]*job
}

// killedCode is the exit code of a killed program, as a shell of Unix has it.
const killedCode = 128 + 9

var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// Contain puts a program that was started with the attributes Suspended into a job, and
// lets it run. KillTree ends the job. If this process ends before Release, Windows ends
// the job, too. If Contain fails, it kills the program.
func Contain(p *os.Process) error {
	j, err := newJob(p)
	if err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return fault.Wrap(fault.Lab, "put the program into a job", err)
	}
	jobs.Lock()
	defer jobs.Unlock()
	if jobs.of == nil {
		jobs.of = map[int]*job{}
	}
	jobs.of[p.Pid] = j
	return nil
}

// newJob puts a suspended program into a job and resumes it.
func newJob(p *os.Process) (j *job, err error) {
	j = &job{}
	if j.handle, err = windows.CreateJobObject(nil, nil); err != nil {
		return nil, fmt.Errorf("CreateJobObject: %w", err)
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if err = j.endWithUs(true); err != nil {
		return nil, err
	}
	if werr := p.WithHandle(func(h uintptr) { err = j.adopt(windows.Handle(h)) }); werr != nil {
		return nil, werr
	}
	return j, err
}

// adopt puts a suspended process into the job and resumes it.
func (j *job) adopt(process windows.Handle) error {
	self := windows.CurrentProcess()
	err := windows.DuplicateHandle(self, process, self, &j.process, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return fmt.Errorf("DuplicateHandle: %w", err)
	}
	if err := windows.AssignProcessToJobObject(j.handle, process); err != nil {
		return fmt.Errorf("AssignProcessToJobObject: %w", err)
	}
	if status, _, _ := resumeProcess.Call(uintptr(process)); status != 0 {
		return fmt.Errorf("NtResumeProcess: %w", windows.NTStatus(status))
	}
	return nil
}

// endWithUs sets whether Windows ends the job when its last handle is closed.
func (j *job) endWithUs(does bool) error {
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if does {
		limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	}
	_, err := windows.SetInformationJobObject(j.handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return fmt.Errorf("SetInformationJobObject: %w", err)
	}
	return nil
}

func (j *job) close() {
	for _, h := range []windows.Handle{j.handle, j.process} {
		if h != 0 {
			_ = windows.CloseHandle(h)
		}
	}
}

// KillTree kills the program pid and everything that it started, if Contain holds it.
func KillTree(pid int) {
	jobs.Lock()
	defer jobs.Unlock()
	if j := jobs.of[pid]; j != nil {
		j.killed = true
		_ = windows.TerminateJobObject(j.handle, killedCode)
	}
}

// KillGroup ends the job of a program.
func KillGroup(pid int) { KillTree(pid) }

// Release lets the descendants of a program that has ended run on.
func Release(pid int) {
	jobs.Lock()
	defer jobs.Unlock()
	if j := jobs.of[pid]; j != nil {
		_ = j.endWithUs(false)
		j.close()
		delete(jobs.of, pid)
	}
}

// UsageOf returns what a program that Contain holds, and its descendants, have spent.
func UsageOf(s *os.ProcessState) facts.Usage {
	jobs.Lock()
	defer jobs.Unlock()
	if j := jobs.of[s.Pid()]; j != nil {
		if u, err := probe.SpentBy(j.handle, j.process); err == nil {
			return u
		}
	}
	return facts.Usage{UserSeconds: s.UserTime().Seconds(), SystemSeconds: s.SystemTime().Seconds()}
}

// NotExecutable reports whether a program was found, but is not one.
func NotExecutable(err error) bool {
	return errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_BAD_EXE_FORMAT)
}

// EndOf says how a program ended. An exception of Windows has its number as the name of
// a signal.
func EndOf(s *os.ProcessState) conn.Exit {
	jobs.Lock()
	defer jobs.Unlock()
	exit := conn.Exit{Code: s.ExitCode()}
	switch j := jobs.of[s.Pid()]; {
	case j != nil && j.killed && exit.Code == killedCode:
		exit.Signal = "killed"
	case uint32(exit.Code) >= 0xc0000000: // NTSTATUS with the severity error
		exit.Signal = fmt.Sprintf("exception %#x", uint32(exit.Code))
	}
	return exit
}
