//! The vector instructions that the emitter uses, one row each.
//!
//! A row names an instruction's form on 128 bits, as VEX (AVX2) and as EVEX (AVX-512) encode it; `INVALID` where that set has
//! no such instruction. `iced-x86` numbers the forms of one instruction by ascending width, so a row is enough for all of
//! them; a test holds it to that.

use super::asm::{Level, Width};
use iced_x86::Code::{self, *};

/// An instruction's 128-bit forms: VEX, then EVEX.
#[derive(Clone, Copy)]
pub(super) struct Row(pub(super) Code, pub(super) Code);

impl Row {
    /// The form for a width. Where an instruction's operands differ in width, the greater one counts.
    pub(super) fn code(self, level: Level, width: Width) -> Result<Code, &'static str> {
        let first = match level {
            Level::Avx2 => self.0,
            Level::Avx512 => self.1,
        };
        if first == INVALID || level == Level::Avx2 && width == Width::Z {
            return Err("an instruction that this processor does not have");
        }
        Code::try_from(first as usize + width as usize).map_err(|_| "a form that there is not")
    }
}

macro_rules! rows {
    ($($name:ident: $vex:ident, $evex:ident;)*) => {
        $(pub(super) const $name: Row = Row($vex, $evex);)*
        /// Every row, for tests.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, Row)] = &[$((stringify!($name), $name)),*];
    };
}

#[rustfmt::skip]
rows! {
    PADDD: VEX_Vpaddd_xmm_xmm_xmmm128, EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32;
    PADDQ: VEX_Vpaddq_xmm_xmm_xmmm128, EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64;
    PADDB: VEX_Vpaddb_xmm_xmm_xmmm128, EVEX_Vpaddb_xmm_k1z_xmm_xmmm128;
    PSUBD: VEX_Vpsubd_xmm_xmm_xmmm128, EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32;
    PSUBQ: VEX_Vpsubq_xmm_xmm_xmmm128, EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64;
    PMULLD: VEX_Vpmulld_xmm_xmm_xmmm128, EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32;
    PMULUDQ: VEX_Vpmuludq_xmm_xmm_xmmm128, EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64;
    PMULDQ: VEX_Vpmuldq_xmm_xmm_xmmm128, EVEX_Vpmuldq_xmm_k1z_xmm_xmmm128b64;
    PMINUD: VEX_Vpminud_xmm_xmm_xmmm128, EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32;
    PMINSD: VEX_Vpminsd_xmm_xmm_xmmm128, EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32;
    PMAXUD: VEX_Vpmaxud_xmm_xmm_xmmm128, EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32;
    PMAXSD: VEX_Vpmaxsd_xmm_xmm_xmmm128, EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32;
    PSLLVD: VEX_Vpsllvd_xmm_xmm_xmmm128, EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32;
    PSLLVQ: VEX_Vpsllvq_xmm_xmm_xmmm128, EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64;
    PSRLVD: VEX_Vpsrlvd_xmm_xmm_xmmm128, EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32;
    PSRLVQ: VEX_Vpsrlvq_xmm_xmm_xmmm128, EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64;
    PSRAVD: VEX_Vpsravd_xmm_xmm_xmmm128, EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32;
    PSHUFB: VEX_Vpshufb_xmm_xmm_xmmm128, EVEX_Vpshufb_xmm_k1z_xmm_xmmm128;
    PMADDUBSW: VEX_Vpmaddubsw_xmm_xmm_xmmm128, EVEX_Vpmaddubsw_xmm_k1z_xmm_xmmm128;
    PMADDWD: VEX_Vpmaddwd_xmm_xmm_xmmm128, EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128;
    PACKUSDW: VEX_Vpackusdw_xmm_xmm_xmmm128, EVEX_Vpackusdw_xmm_k1z_xmm_xmmm128b32;
    ADDPS: VEX_Vaddps_xmm_xmm_xmmm128, EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32;
    ADDPD: VEX_Vaddpd_xmm_xmm_xmmm128, EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64;
    SUBPS: VEX_Vsubps_xmm_xmm_xmmm128, EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32;
    SUBPD: VEX_Vsubpd_xmm_xmm_xmmm128, EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64;
    MULPS: VEX_Vmulps_xmm_xmm_xmmm128, EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32;
    MULPD: VEX_Vmulpd_xmm_xmm_xmmm128, EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64;
    DIVPS: VEX_Vdivps_xmm_xmm_xmmm128, EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32;
    DIVPD: VEX_Vdivpd_xmm_xmm_xmmm128, EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64;
    MINPS: VEX_Vminps_xmm_xmm_xmmm128, EVEX_Vminps_xmm_k1z_xmm_xmmm128b32;
    MINPD: VEX_Vminpd_xmm_xmm_xmmm128, EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64;
    MAXPS: VEX_Vmaxps_xmm_xmm_xmmm128, EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32;
    MAXPD: VEX_Vmaxpd_xmm_xmm_xmmm128, EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64;
    FMADD213PS: VEX_Vfmadd213ps_xmm_xmm_xmmm128, EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32;
    FMADD213PD: VEX_Vfmadd213pd_xmm_xmm_xmmm128, EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64;
    FMADD231PS: VEX_Vfmadd231ps_xmm_xmm_xmmm128, EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32;
    FMADD231PD: VEX_Vfmadd231pd_xmm_xmm_xmmm128, EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64;
    PMULLQ: INVALID, EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64;
    PMINUQ: INVALID, EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64;
    PMINSQ: INVALID, EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64;
    PMAXUQ: INVALID, EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64;
    PMAXSQ: INVALID, EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64;
    PSRAVQ: INVALID, EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64;
    PROLVD: INVALID, EVEX_Vprolvd_xmm_k1z_xmm_xmmm128b32;
    PROLVQ: INVALID, EVEX_Vprolvq_xmm_k1z_xmm_xmmm128b64;
    PSADBW: VEX_Vpsadbw_xmm_xmm_xmmm128, EVEX_Vpsadbw_xmm_xmm_xmmm128;
    PAND: VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32;
    POR: VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vpord_xmm_k1z_xmm_xmmm128b32;
    PXOR: VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32;
    PANDN: VEX_Vpandn_xmm_xmm_xmmm128, EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32;
    PERMILPS: VEX_Vpermilps_xmm_xmm_xmmm128, EVEX_Vpermilps_xmm_k1z_xmm_xmmm128b32;
    PSLLD: VEX_Vpslld_xmm_xmm_imm8, EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8;
    PSLLQ: VEX_Vpsllq_xmm_xmm_imm8, EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8;
    PSRLD: VEX_Vpsrld_xmm_xmm_imm8, EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8;
    PSRLQ: VEX_Vpsrlq_xmm_xmm_imm8, EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8;
    PSRAD: VEX_Vpsrad_xmm_xmm_imm8, EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8;
    PSRAQ: INVALID, EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8;
    PROLD: INVALID, EVEX_Vprold_xmm_k1z_xmmm128b32_imm8;
    PROLQ: INVALID, EVEX_Vprolq_xmm_k1z_xmmm128b64_imm8;
    PSHUFD: VEX_Vpshufd_xmm_xmmm128_imm8, EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8;
    ROUNDPS: VEX_Vroundps_xmm_xmmm128_imm8, EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8;
    SQRTPS: VEX_Vsqrtps_xmm_xmmm128, EVEX_Vsqrtps_xmm_k1z_xmmm128b32;
    CMPPS: VEX_Vcmpps_xmm_xmm_xmmm128_imm8, EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8;
    SHUFPS: VEX_Vshufps_xmm_xmm_xmmm128_imm8, EVEX_Vshufps_xmm_k1z_xmm_xmmm128b32_imm8;
    BLENDVPS: VEX_Vblendvps_xmm_xmm_xmmm128_xmm, INVALID;
    ROUNDPD: VEX_Vroundpd_xmm_xmmm128_imm8, EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8;
    SQRTPD: VEX_Vsqrtpd_xmm_xmmm128, EVEX_Vsqrtpd_xmm_k1z_xmmm128b64;
    CMPPD: VEX_Vcmppd_xmm_xmm_xmmm128_imm8, EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8;
    BLENDVPD: VEX_Vblendvpd_xmm_xmm_xmmm128_xmm, INVALID;
    PCMPD: INVALID, EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8;
    PCMPUD: INVALID, EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8;
    PCMPQ: INVALID, EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8;
    PCMPUQ: INVALID, EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8;
    PCMPEQD: VEX_Vpcmpeqd_xmm_xmm_xmmm128, INVALID;
    PCMPEQQ: VEX_Vpcmpeqq_xmm_xmm_xmmm128, INVALID;
    PCMPGTD: VEX_Vpcmpgtd_xmm_xmm_xmmm128, INVALID;
    PCMPGTQ: VEX_Vpcmpgtq_xmm_xmm_xmmm128, INVALID;
    PBLENDMD: INVALID, EVEX_Vpblendmd_xmm_k1z_xmm_xmmm128b32;
    PBLENDMQ: INVALID, EVEX_Vpblendmq_xmm_k1z_xmm_xmmm128b64;
    PLZCNTD: INVALID, EVEX_Vplzcntd_xmm_k1z_xmmm128b32;
    PLZCNTQ: INVALID, EVEX_Vplzcntq_xmm_k1z_xmmm128b64;
    MOVDQU: VEX_Vmovdqu_xmm_xmmm128, EVEX_Vmovdqu32_xmm_k1z_xmmm128;
    MOVDQU64: INVALID, EVEX_Vmovdqu64_xmm_k1z_xmmm128;
    STORE: VEX_Vmovdqu_xmmm128_xmm, EVEX_Vmovdqu32_xmmm128_k1z_xmm;
    STORE64: INVALID, EVEX_Vmovdqu64_xmmm128_k1z_xmm;
    STREAM: VEX_Vmovntdq_m128_xmm, EVEX_Vmovntdq_m128_xmm;
    PMASKLOADD: VEX_Vpmaskmovd_xmm_xmm_m128, INVALID;
    PMASKSTORED: VEX_Vpmaskmovd_m128_xmm_xmm, INVALID;
    BROADCASTD: VEX_Vpbroadcastd_xmm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32;
    BROADCASTD_GP: INVALID, EVEX_Vpbroadcastd_xmm_k1z_r32;
    PMASKLOADQ: VEX_Vpmaskmovq_xmm_xmm_m128, INVALID;
    PMASKSTOREQ: VEX_Vpmaskmovq_m128_xmm_xmm, INVALID;
    BROADCASTQ: VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64;
    BROADCASTQ_GP: INVALID, EVEX_Vpbroadcastq_xmm_k1z_r64;
    PGATHERDD: VEX_Vpgatherdd_xmm_vm32x_xmm, EVEX_Vpgatherdd_xmm_k1_vm32x;
    PSCATTERDD: INVALID, EVEX_Vpscatterdd_vm32x_k1_xmm;
    PGATHERDQ: VEX_Vpgatherdq_xmm_vm32x_xmm, EVEX_Vpgatherdq_xmm_k1_vm32x;
    PSCATTERDQ: INVALID, EVEX_Vpscatterdq_vm32x_k1_xmm;
    PMOVZXDQ: VEX_Vpmovzxdq_xmm_xmmm64, EVEX_Vpmovzxdq_xmm_k1z_xmmm64;
    PMOVSXDQ: VEX_Vpmovsxdq_xmm_xmmm64, EVEX_Vpmovsxdq_xmm_k1z_xmmm64;
    PMOVZXBD: VEX_Vpmovzxbd_xmm_xmmm32, EVEX_Vpmovzxbd_xmm_k1z_xmmm32;
    PMOVSXBD: VEX_Vpmovsxbd_xmm_xmmm32, EVEX_Vpmovsxbd_xmm_k1z_xmmm32;
    PMOVZXWD: VEX_Vpmovzxwd_xmm_xmmm64, EVEX_Vpmovzxwd_xmm_k1z_xmmm64;
    PMOVSXWD: VEX_Vpmovsxwd_xmm_xmmm64, EVEX_Vpmovsxwd_xmm_k1z_xmmm64;
    PMOVQD: INVALID, EVEX_Vpmovqd_xmmm64_k1z_xmm;
    PMOVDB: INVALID, EVEX_Vpmovdb_xmmm32_k1z_xmm;
    PMOVDW: INVALID, EVEX_Vpmovdw_xmmm64_k1z_xmm;
    CVTDQ2PS: VEX_Vcvtdq2ps_xmm_xmmm128, EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32;
    CVTDQ2PD: VEX_Vcvtdq2pd_xmm_xmmm64, EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32;
    CVTPS2PD: VEX_Vcvtps2pd_xmm_xmmm64, EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32;
    CVTPD2PS: VEX_Vcvtpd2ps_xmm_xmmm128, EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64;
    CVTPH2PS: VEX_Vcvtph2ps_xmm_xmmm64, EVEX_Vcvtph2ps_xmm_k1z_xmmm64;
    CVTUDQ2PS: INVALID, EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32;
    CVTUDQ2PD: INVALID, EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32;
    CVTQQ2PS: INVALID, EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64;
    CVTQQ2PD: INVALID, EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64;
    CVTUQQ2PS: INVALID, EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64;
    CVTUQQ2PD: INVALID, EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64;
    CVTTPS2DQ: INVALID, EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32;
    CVTTPS2UDQ: INVALID, EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32;
    CVTTPS2QQ: INVALID, EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32;
    CVTTPS2UQQ: INVALID, EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32;
    CVTTPD2DQ: INVALID, EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64;
    CVTTPD2UDQ: INVALID, EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64;
    CVTTPD2QQ: INVALID, EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64;
    CVTTPD2UQQ: INVALID, EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64;
    CVTPS2PH: VEX_Vcvtps2ph_xmmm64_xmm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8;
    PTEST: VEX_Vptest_xmm_xmmm128, INVALID;
}
