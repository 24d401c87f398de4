/* SPDX-License-Identifier: Apache-2.0
   A management library with two fake GPUs: the second reports neither temperature nor power. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int devices[2];

static unsigned long index_of(void* device) { return (unsigned long)((int*)device - devices); }

int nvmlInit_v2(void) { return getenv("FAKE_NVML_FAILS") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) { return snprintf(text, size, "580.1") < 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = getenv("FAKE_NVML_EMPTY") ? 0 : 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  return snprintf(text, size, "Fake %lu", index_of(device)) < 0;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  rates[0] = 90 + (unsigned)index_of(device);
  rates[1] = 10;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  (void)device;
  memory[0] = 80ULL << 30;
  memory[1] = 60ULL << 30;
  memory[2] = 20ULL << 30;
  return 0;
}
int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  *celsius = 64 + sensor;
  return index_of(device) == 0 ? 0 : 3;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 412500;
  return index_of(device) == 0 ? 0 : 3;
}
int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* megahertz) {
  (void)device;
  *megahertz = type == 1 ? 1980 : 0;
  return 0;
}
struct process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, struct process* processes) {
  *count = 0;
  if (index_of(device) != 0 || !getenv("FAKE_NVML_PID")) return 0;
  *count = 1;
  processes[0] = (struct process){(unsigned)atoi(getenv("FAKE_NVML_PID")), 3ULL << 30, 0, 0};
  return 0;
}
struct pci_info {
  char old_address[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char address[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* info) {
  memset(info, 0, sizeof *info);
  info->bus = 0x17 + (unsigned)index_of(device);
  return 0;
}
int nvmlDeviceGetP2PStatus(void* one, void* other, int what, int* status) {
  (void)one;
  (void)other;
  *status = what == 2 ? 5 : 1; /* no NVLink, and the chipset does not let them reach each other */
  return 0;
}
/* FAKE_NVML_SLICES: of the first GPU, or, with 2, of both. Each has three places, of which the second is empty. */
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  const char* sliced = getenv("FAKE_NVML_SLICES");
  *count = sliced && (index_of(device) == 0 || sliced[0] == '2') ? 3 : 0;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** slice) {
  if (index == 1) return 6;
  *slice = device;
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  return snprintf(text, size, "MIG-%lu", index_of(device)) < 0;
}
