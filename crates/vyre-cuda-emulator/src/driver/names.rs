//! Every function of the API by its name: those that are implemented, and those that are only there.
//!
//! The names are those of CUDA 11.4 to 13.4. A function that is not implemented returns `CUDA_ERROR_NOT_SUPPORTED`. So do
//! the oldest forms (`cuMemAlloc` beside `cuMemAlloc_v2`): headers have not named them since CUDA 3.2.
#![allow(unsafe_code)]

use super::ffi::{In, Out};
use super::{anytime, invalid, lock, log};
use crate::fault::{Code, Fault};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// A function as `cuGetProcAddress` gives it out, and whether it is implemented.
struct Entry {
    name: &'static str,
    address: *const (),
    implemented: bool,
}

/// The table of the functions that these modules define.
macro_rules! implemented {
    ($($module:ident: $($name:ident)*;)*) => {
        /// The functions by their symbols, because the modules keep them to themselves.
        mod symbols {
            unsafe extern "C" {
                $($(pub(super) fn $name();)*)*
            }
        }
        const IMPLEMENTED: &[Entry] = &[
            $($(Entry { name: stringify!($name), address: symbols::$name as *const (), implemented: true },)*)*
        ];
    };
}

/// Functions that are there by name, and the table of them.
macro_rules! lacking {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> u32 {
                lacks(stringify!($name))
            }
        )*
        const LACKING: &[Entry] = &[
            $(Entry { name: stringify!($name), address: $name as *const (), implemented: false },)*
        ];
    };
}

/// Logs a function's name when it is first called.
fn lacks(name: &'static str) -> u32 {
    static LOGGED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if lock(&LOGGED).insert(name) {
        log(&format!("{name} is not supported"));
    }
    Code::NotSupported as u32
}

/// Names that mean another function than the highest version of theirs, by the version of CUDA that the caller was built
/// for: (name, below that version, function).
const RENAMED: &[(&str, u32, &str)] = &[
    ("cuCtxCreate", 11_040, "cuCtxCreate_v2"),
    ("cuCtxCreate", 13_000, "cuCtxCreate_v3"),
    ("cuGetProcAddress", 12_000, "cuGetProcAddress"),
    ("cuGraphInstantiate", 12_000, "cuGraphInstantiate_v2"),
    ("cuGraphInstantiate", u32::MAX, "cuGraphInstantiateWithFlags"),
];

/// The function that a caller means by a name without a version.
fn find(name: &str, version: u32) -> Option<&'static Entry> {
    let renamed = RENAMED.iter().find(|(known, below, _)| *known == name && version < *below);
    let name = renamed.map_or(name, |(_, _, function)| function);
    let is_version = |entry: &&Entry| {
        let rest = entry.name.strip_prefix(name);
        rest.is_some_and(|rest| renamed.is_none() && rest.starts_with("_v") || rest.is_empty())
    };
    // What is implemented comes before what is not, and a later version before an earlier one.
    IMPLEMENTED.iter().chain(LACKING).filter(is_version).max_by_key(|entry| (entry.implemented, entry.name))
}

fn address_of(name: In<u8>, out: Out<usize>, version: i32, status: Out<u32>) -> u32 {
    anytime(|| {
        let name = name.text()?;
        let version = u32::try_from(version).map_err(|_| invalid("a negative version"))?;
        let found = std::str::from_utf8(&name).ok().and_then(|name| find(name, version));
        // `CU_GET_PROC_ADDRESS_SUCCESS` or `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
        status.set_if_asked(u32::from(found.is_none()));
        out.set(found.map_or(0, |entry| entry.address.addr()))?;
        let unknown = || {
            let name = String::from_utf8_lossy(&name);
            Fault::new(Code::NotFound, format!("there is no function `{name}`"))
        };
        found.map(|_| ()).ok_or_else(unknown)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGetProcAddress(name: In<u8>, out: Out<usize>, version: i32, _flags: u64) -> u32 {
    address_of(name, out, version, Out::at_address(0))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetProcAddress_v2(
    name: In<u8>,
    out: Out<usize>,
    version: i32,
    _flags: u64,
    status: Out<u32>,
) -> u32 {
    address_of(name, out, version, status)
}

#[rustfmt::skip]
implemented! {
    allocation:
        cuMemAllocAsync cuMemAllocHost_v2 cuMemAlloc_v2 cuMemFreeAsync cuMemFreeHost cuMemFree_v2
        cuMemGetAddressRange_v2 cuMemGetInfo_v2 cuMemHostAlloc cuMemHostGetDevicePointer_v2 cuMemHostGetFlags
        cuMemHostRegister_v2 cuMemHostUnregister cuPointerGetAttribute;
    capture:
        cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamGetCaptureInfo_v2 cuStreamIsCapturing
        cuThreadExchangeStreamCaptureMode;
    context:
        cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2 cuCtxGetApiVersion cuCtxGetCacheConfig
        cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags cuCtxGetId cuCtxGetLimit cuCtxGetStreamPriorityRange
        cuCtxPopCurrent_v2 cuCtxPushCurrent_v2 cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetFlags cuCtxSetLimit
        cuCtxSynchronize cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2
        cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags_v2;
    copy:
        cuMemcpy cuMemcpyAsync cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2
        cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemcpyPeer cuMemcpyPeerAsync cuMemsetD16Async cuMemsetD16_v2
        cuMemsetD32Async cuMemsetD32_v2 cuMemsetD8Async cuMemsetD8_v2;
    device:
        cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGet cuDeviceGetAttribute cuDeviceGetByPCIBusId
        cuDeviceGetCount cuDeviceGetName cuDeviceGetPCIBusId cuDeviceGetUuid cuDeviceGetUuid_v2
        cuDeviceTotalMem_v2 cuDriverGetVersion cuInit;
    error:
        cuGetErrorName cuGetErrorString;
    event:
        cuEventCreate cuEventDestroy_v2 cuEventElapsedTime cuEventElapsedTime_v2 cuEventQuery cuEventRecord
        cuEventRecordWithFlags cuEventSynchronize cuStreamWaitEvent;
    function:
        cuFuncGetAttribute cuFuncGetModule cuFuncGetParamInfo cuFuncSetAttribute cuFuncSetCacheConfig
        cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        cuOccupancyMaxPotentialBlockSize;
    graph:
        cuGraphClone cuGraphCreate cuGraphDestroy cuGraphExecDestroy cuGraphGetNodes cuGraphInstantiateWithFlags
        cuGraphInstantiate_v2 cuGraphLaunch cuGraphUpload;
    launch:
        cuLaunchCooperativeKernel cuLaunchKernel cuLaunchKernelEx;
    link:
        cuLinkAddData_v2 cuLinkComplete cuLinkCreate_v2 cuLinkDestroy;
    module:
        cuModuleGetFunction cuModuleGetFunctionCount cuModuleGetGlobal_v2 cuModuleGetLoadingMode cuModuleLoad
        cuModuleLoadData cuModuleLoadDataEx cuModuleUnload;
    names:
        cuGetProcAddress cuGetProcAddress_v2;
    stream:
        cuLaunchHostFunc cuStreamAddCallback cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2
        cuStreamGetCtx cuStreamGetDevice cuStreamGetFlags cuStreamGetId cuStreamGetPriority cuStreamQuery
        cuStreamSynchronize;
}

#[rustfmt::skip]
lacking! {
    cuArray3DCreate cuArray3DCreate_v2 cuArray3DGetDescriptor cuArray3DGetDescriptor_v2 cuArrayCreate
    cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor cuArrayGetDescriptor_v2
    cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties
    cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute
    cuCoredumpGetAttributeGlobal cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback
    cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuCtxAttach cuCtxCreate cuCtxDestroy cuCtxDetach
    cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxFromGreenCtx cuCtxGetDevResource cuCtxGetDevice_v2
    cuCtxGetExecAffinity cuCtxGetSharedMemConfig cuCtxPopCurrent cuCtxPushCurrent cuCtxRecordEvent
    cuCtxResetPersistingL2Cache cuCtxSetSharedMemConfig cuCtxSynchronize_v2 cuCtxWaitEvent
    cuDestroyExternalMemory cuDestroyExternalSemaphore cuDevResourceGenerateDesc cuDevSmResourceSplit
    cuDevSmResourceSplitByCount cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetDefaultMemPool
    cuDeviceGetDevResource cuDeviceGetExecAffinitySupport cuDeviceGetFabricClusterUuid
    cuDeviceGetGraphMemAttribute cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid cuDeviceGetMemPool
    cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute cuDeviceGetProperties
    cuDeviceGetTexture1DLinearMaxWidth cuDeviceGraphMemTrim cuDevicePrimaryCtxRelease
    cuDevicePrimaryCtxReset cuDevicePrimaryCtxSetFlags cuDeviceRegisterAsyncNotification
    cuDeviceSetGraphMemAttribute cuDeviceSetMemPool cuDeviceTotalMem cuDeviceUnregisterAsyncNotification
    cuEventDestroy cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray
    cuFlushGPUDirectRDMAWrites cuFuncGetName cuFuncGetParamCount cuFuncIsLoaded cuFuncLoad
    cuFuncSetBlockShape cuFuncSetSharedMemConfig cuFuncSetSharedSize cuGetExportTable
    cuGraphAddBatchMemOpNode cuGraphAddChildGraphNode cuGraphAddDependencies cuGraphAddDependencies_v2
    cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
    cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddHostNode
    cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemAllocNode cuGraphAddMemFreeNode
    cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode cuGraphAddNode_v2 cuGraphAddNode_v3
    cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph
    cuGraphConditionalHandleCreate cuGraphDebugDotPrint cuGraphDestroyNode cuGraphEventRecordNodeGetEvent
    cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
    cuGraphExecBatchMemOpNodeSetParams cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent
    cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags cuGraphExecGetId
    cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
    cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphExecNodeSetParams cuGraphExecUpdate
    cuGraphExecUpdate_v2 cuGraphExternalSemaphoresSignalNodeGetParams
    cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
    cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges cuGraphGetEdges_v2 cuGraphGetId
    cuGraphGetRootNodes cuGraphHostNodeGetParams cuGraphHostNodeSetParams cuGraphInstantiate
    cuGraphInstantiateWithParams cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute
    cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute
    cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2 cuGraphMemAllocNodeGetParams
    cuGraphMemFreeNodeGetParams cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams
    cuGraphMemsetNodeGetParams cuGraphMemsetNodeSetParams cuGraphNodeFindInClone
    cuGraphNodeGetContainingGraph cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
    cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled cuGraphNodeGetLocalId
    cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeGetType cuGraphNodeSetEnabled cuGraphNodeSetParams
    cuGraphNodeSetParams_v2 cuGraphReleaseUserObject cuGraphRemoveDependencies cuGraphRemoveDependencies_v2
    cuGraphRetainUserObject cuGraphicsMapResources cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags
    cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources
    cuGraphicsUnregisterResource cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxGetId
    cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent cuImportExternalMemory
    cuImportExternalSemaphore cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle
    cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 cuKernelGetAttribute cuKernelGetFunction cuKernelGetLibrary
    cuKernelGetName cuKernelGetParamCount cuKernelGetParamInfo cuKernelSetAttribute cuKernelSetCacheConfig
    cuLaunch cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync cuLaunchHostFunc_v2
    cuLibraryEnumerateKernels cuLibraryGetGlobal cuLibraryGetKernel cuLibraryGetKernelCount
    cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData
    cuLibraryLoadFromFile cuLibraryUnload cuLinkAddData cuLinkAddFile cuLinkAddFile_v2 cuLinkCreate
    cuLogicalEndpointAddDevice cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate
    cuLogicalEndpointDestroy cuLogicalEndpointExport cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease
    cuLogicalEndpointIdReserve cuLogicalEndpointImport cuLogicalEndpointQuery cuLogicalEndpointUnbind
    cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback cuLogsUnregisterCallback
    cuMemAddressFree cuMemAddressReserve cuMemAdvise cuMemAdvise_v2 cuMemAlloc cuMemAllocFromPoolAsync
    cuMemAllocHost cuMemAllocManaged cuMemAllocPitch cuMemAllocPitch_v2 cuMemBatchDecompressAsync
    cuMemCreate cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemExportToShareableHandle
    cuMemFree cuMemGetAccess cuMemGetAddressRange cuMemGetAllocationGranularity
    cuMemGetAllocationPropertiesFromHandle cuMemGetDefaultMemPool cuMemGetHandleForAddressRange cuMemGetInfo
    cuMemGetLocationInfo cuMemGetMemPool cuMemHostGetDevicePointer cuMemHostRegister
    cuMemImportFromShareableHandle cuMemMap cuMemMapArrayAsync cuMemPoolCreate cuMemPoolDestroy
    cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolGetAccess cuMemPoolGetAttribute
    cuMemPoolImportFromShareableHandle cuMemPoolImportPointer cuMemPoolSetAccess cuMemPoolSetAttribute
    cuMemPoolTrimTo cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemPrefetchBatchAsync cuMemRangeGetAttribute
    cuMemRangeGetAttributes cuMemRelease cuMemRetainAllocationHandle cuMemSetAccess cuMemSetMemPool
    cuMemUnmap cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DAsync_v2 cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2
    cuMemcpy2D_v2 cuMemcpy3D cuMemcpy3DAsync cuMemcpy3DAsync_v2 cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_v2
    cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3DWithAttributesAsync cuMemcpy3D_v2 cuMemcpyAtoA
    cuMemcpyAtoA_v2 cuMemcpyAtoD cuMemcpyAtoD_v2 cuMemcpyAtoH cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2
    cuMemcpyAtoH_v2 cuMemcpyBatchAsync cuMemcpyBatchAsync_v2 cuMemcpyDtoA cuMemcpyDtoA_v2 cuMemcpyDtoD
    cuMemcpyDtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2
    cuMemcpyHtoA_v2 cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyWithAttributesAsync cuMemsetD16 cuMemsetD2D16
    cuMemsetD2D16Async cuMemsetD2D16_v2 cuMemsetD2D32 cuMemsetD2D32Async cuMemsetD2D32_v2 cuMemsetD2D8
    cuMemsetD2D8Async cuMemsetD2D8_v2 cuMemsetD32 cuMemsetD8 cuMipmappedArrayCreate cuMipmappedArrayDestroy
    cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties
    cuModuleEnumerateFunctions cuModuleGetGlobal cuModuleGetSurfRef cuModuleGetTexRef cuModuleLoadFatBinary
    cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindAddr_v2 cuMulticastBindMem cuMulticastBindMem_v2
    cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind cuOccupancyAvailableDynamicSMemPerBlock
    cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialBlockSizeWithFlags
    cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv
    cuPointerGetAttributes cuPointerSetAttribute cuProfilerInitialize cuProfilerStart cuProfilerStop
    cuSignalExternalSemaphoresAsync cuStreamAttachMemAsync cuStreamBatchMemOp cuStreamBatchMemOp_v2
    cuStreamBeginCapture cuStreamBeginCaptureToCig cuStreamBeginCaptureToGraph cuStreamBeginRecaptureToGraph
    cuStreamCopyAttributes cuStreamDestroy cuStreamEndCaptureToCig cuStreamGetAttribute
    cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v3 cuStreamGetCtx_v2 cuStreamGetDevResource
    cuStreamGetGreenCtx cuStreamSetAttribute cuStreamUpdateCaptureDependencies
    cuStreamUpdateCaptureDependencies_v2 cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWaitValue64
    cuStreamWaitValue64_v2 cuStreamWriteValue32 cuStreamWriteValue32_v2 cuStreamWriteValue64
    cuStreamWriteValue64_v2 cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc
    cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide
    cuTensorMapEncodeTiled cuTensorMapReplaceAddress cuTexObjectCreate cuTexObjectDestroy
    cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate
    cuTexRefDestroy cuTexRefGetAddress cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray
    cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
    cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
    cuTexRefGetMipmappedArray cuTexRefSetAddress cuTexRefSetAddress2D cuTexRefSetAddress2D_v3
    cuTexRefSetAddressMode cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor
    cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy
    cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp
    cuTexRefSetMipmappedArray cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain
    cuWaitExternalSemaphoresAsync
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_version_that_the_caller_was_built_for() {
        let name = |name, version| find(name, version).map(|entry| entry.name);
        assert_eq!(name("cuMemAlloc", 12_000), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuEventQuery", 12_000), Some("cuEventQuery"));
        assert_eq!(name("cuCtxCreate", 11_000), Some("cuCtxCreate_v2"));
        assert_eq!(name("cuCtxCreate", 13_000), Some("cuCtxCreate_v4"));
        assert_eq!(name("cuGetProcAddress", 12_000), Some("cuGetProcAddress_v2"));
        assert_eq!(name("cuGraphInstantiate", 13_000), Some("cuGraphInstantiateWithFlags"));
        assert_eq!(name("cuArrayCreate", 12_000), Some("cuArrayCreate_v2"));
        assert_eq!(name("cuNothing", 12_000), None);
    }
}
