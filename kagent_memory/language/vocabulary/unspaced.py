"""Chinese, Japanese, Korean and Thai: what tells stands inside runs of characters, so all words are pieces of text."""

from __future__ import annotations

from typing import Final

from .language import Language

CHINESE: Final = Language(
    code="zh",
    function_words="""
        的 了 是 在 我 你 他 她 它 们 們 和 与 與 也 都 就 会 會 要 这 這 那 您 吧 呢 吗 嗎 很 对 對 给 給 把 被 让 讓
        跟 及 或 等 个 個 着 著 过 過 得 地 能 可 到 从 從 上 下 里 裡 中
    """,
    light_words="""
        用 户 戶 使 喜 欢 歡 有 每 好 非 常 很 太 真 特 别 別 十 分 叫 做 还 還 又 再 已 经 經 正 现 現 总 總 非常
        十分 特别 特別 现在 現在 常常 经常
    """,
    copulas="是 为 為",
    conjunctions="和 与 與 跟 及 或",
    numbers="零 一 二 三 四 五 六 七 八 九 十",
    more_numbers="两:2 兩:2 百:100 千:1000 万:10000 萬:10000 亿:100000000 半:0.5 〇:0",
    months="一月 | 二月 | 三月 | 四月 | 五月 | 六月 | 七月 | 八月 | 九月 | 十月 | 十一月 | 十二月",
    weekdays="""
        星期一 周一 週一 礼拜一 | 星期二 周二 週二 礼拜二 | 星期三 周三 週三 礼拜三 | 星期四 周四 週四 礼拜四 | 星期五
        周五 週五 礼拜五 | 星期六 周六 週六 礼拜六 | 星期日 星期天 周日 週日 周天 礼拜天
    """,
    dates="""
        yesterday: 昨天 昨日 | today: 今天 今日 | tomorrow: 明天 明日 | ereyesterday: 前天 | overmorrow: 后天 後天 |
        lastyear: 去年 | thisyear: 今年 | nextyear: 明年 | lastweek: 上周 上週 上星期 上个星期 | nextweek: 下周 下週
        下星期 下个星期 | thisweek: 本周 本週 这周 這週 这星期 这个星期 | lastmonth: 上个月 上個月 上月 | nextmonth:
        下个月 下個月 下月 | thismonth: 这个月 這個月 本月 | mornings: 早上 上午 早晨 | afternoons: 下午 | evenings:
        晚上 傍晚 | nights: 夜里 深夜 半夜 | noon: 中午 | spring: 春天 | summer: 夏天 | autumn: 秋天 | winter: 冬天 |
        daily: 每天 每日 | weekly: 每周 每週 | monthly: 每月 | yearly: 每年 | weekend: 周末 週末
    """,
    units="""
        kilometre: 公里 千米 | metre: 米 | kilogram: 公斤 千克 | gram: 克 | hour: 小时 小時 | minute: 分钟 分鐘 |
        second: 秒 | day: 天 | month: 个月 個月 | year: 年 岁 歲 | usd: 美元 美金 | eur: 欧元 歐元 | cny: 元 人民币
        块钱 块 | jpy: 日元 日圆 | gbp: 英镑 | krw: 韩元 | percent: 百分 | pound: 磅 | mile: 英里 | celsius: 摄氏度 |
        fahrenheit: 华氏度 | mu: 亩 | litre: 升
    """,
    negations="不 没 沒 無 无 未 别 別 勿 非 莫 从不 從不 绝不 禁止_",
    opposites="""
        open: 打开 打開 开放 開放 开着 开门 营业 / 关闭 關閉 关着 关门 关上 打烊 |
        side: 左 / 右 |
        before: 之前 以前 / 之后 以后 之後 以後 |
        relative: 哥哥 弟弟 兄弟 / 姐姐 妹妹 姐妹 / 妈妈 媽媽 母亲 母親 / 爸爸 父亲 父親 / 儿子 兒子 / 女儿 女兒 /
            奶奶 外婆 祖母 / 爷爷 爺爺 外公 祖父 / 阿姨 姑姑 姑妈 / 叔叔 舅舅 伯伯 / 妻子 老婆 太太 / 丈夫 老公 |
        gender: 男人 男性 男士 先生 / 女人 女性 女士 |
        young_gender: 男孩 / 女孩 |
        pronoun: 他 / 她 |
        allowed: 允许 允許 可以 准许 / 禁止 不准 不许 |
        enabled: 启用 啟用 开启 開啟 / 禁用 停用 关闭 關閉 |
        valid: 有效 / 无效 無效 |
        amount: 更多 / 更少 较少 |
        height: 高 / 低 |
        size: 大 / 小 |
        length: 长 長 / 短 |
        age: 年老 老人 / 年轻 年輕 |
        newness: 新 / 旧 舊 |
        heat: 热 熱 / 冷 / 温 溫 |
        timeliness: 早 / 晚 迟 |
        sequence: 首先 第一 / 最后 最後 |
        often: 总是 總是 / 有时 有時 / 很少 / 经常 經常 |
        everything: 全部 所有 每个 / 一些 部分 |
        start: 开始 開始 / 结束 結束 停止 |
        buy: 买 買 购买 / 卖 賣 出售 |
        lend: 借给 / 借入 借来 |
        win: 赢 贏 胜 / 输 輸 败 |
        arrive: 到达 到達 抵达 / 离开 離開 出发 |
        accept: 接受 批准 同意 / 拒绝 拒絕 |
        increase: 增加 上升 提高 上涨 / 减少 減少 下降 降低 下跌 |
        truth: 真 / 假 |
        correct: 正确 正確 / 错误 錯誤 |
        quality: 好 / 坏 壞 差 |
        safe: 安全 / 危险 危險 |
        public: 公开 公開 公共 / 私人 私有 秘密 |
        interior: 里面 裡面 内部 內部 室内 / 外面 外部 室外 |
        above: 上面 上方 / 下面 下方 |
        front: 前面 / 后面 後面 |
        near: 近 附近 / 远 遠 |
        compass: 北 / 南 / 东 東 / 西 |
        floor: 楼上 樓上 / 楼下 樓下 |
        teach: 老师 老師 教师 / 学生 學生 |
        employ: 雇主 / 雇员 员工 |
        medical: 医生 醫生 / 病人 患者 |
        rent: 房东 房東 / 房客 租客 租户 |
        trade: 买家 買家 / 卖家 賣家 |
        rank: 上司 老板 经理 / 下属 |
        marriage: 已婚 结婚 / 未婚 单身 單身 / 离婚 離婚 |
        life: 活 / 死 去世 |
        health: 健康 / 生病 |
        wealth: 富 / 穷 窮 |
        strength: 强 強 / 弱 |
        speed: 快 / 慢 |
        weight: 重 / 轻 輕 |
        difficulty: 难 難 / 容易 简单 簡單 |
        fullness: 满 滿 / 空 |
        wetness: 湿 濕 / 干 乾 |
        cleanness: 干净 乾淨 / 脏 髒 |
        loudness: 吵 / 安静 安靜 |
        brightness: 亮 浅色 / 暗 深色 |
        price: 贵 貴 / 便宜 |
        charge: 免费 免費 / 付费 收费 |
        online: 在线 線上 线上 / 离线 線下 线下 |
        manual: 手动 手動 / 自动 自動 |
        duration: 临时 臨時 / 永久 |
        duty: 可选 自愿 / 必须 必須 强制 |
        transfer: 进口 导入 / 出口 导出 |
        load: 上传 上傳 / 下载 下載 |
        adding: 添加 / 删除 刪除 移除 |
        bound: 最大 最多 / 最小 最少 |
        diet: 纯素 / 素食 |
        taste: 甜 / 酸 / 苦 / 咸 鹹 / 辣 |
        meal: 早餐 早饭 / 午餐 午饭 / 晚餐 晚饭 |
        voting: 赞成 支持 / 反对 反對 |
        friendship: 朋友 / 敌人 敵人 |
        memory: 记得 記得 / 忘记 忘記 |
        success: 成功 通过 / 失败 失敗 |
        colour: 红 紅 / 蓝 藍 / 绿 綠 / 黄 黃 / 橙 / 紫 / 粉 / 黑 / 白 / 灰 |
        mood: 高兴 快乐 開心 / 难过 伤心 |
        love: 喜欢 喜歡 爱 愛 / 讨厌 討厭 恨 |
        urban: 城市 / 乡村 農村 农村
    """,
    doubtful="""
        不过 不過 不错 不錯 不仅 不僅 不但 不同 不久 不断 不斷 差不多 非常 未来 未來 特别 特別 别人 別人 别墅 分别
        區別 区别 级别 性别 無料 無線 无论 無論 不管 没错 沒錯 无线 對不起 对不起 非洲 不得不 了不起 別名 別途 個別
        非洲
    """,
)

JAPANESE: Final = Language(
    code="ja",
    function_words="は が を に の で と も や へ か ね よ から まで より です ます だ た て い る",
    light_words="ユ ー ザ 好 き と て も 大 使 用 者 し す な い 非 常 様 さ ん",
    copulas="です だ である",
    conjunctions="と や",
    dates="""
        yesterday: 昨日 きのう | today: 今日 きょう | tomorrow: 明日 あした | lastweek: 先週 | thisweek: 今週 |
        nextweek: 来週 | lastmonth: 先月 | thismonth: 今月 | nextmonth: 来月 | lastyear: 去年 昨年 | thisyear: 今年 |
        nextyear: 来年 | monday: 月曜 | tuesday: 火曜 | wednesday: 水曜 | thursday: 木曜 | friday: 金曜 | saturday:
        土曜 | sunday: 日曜 | mornings: 午前 朝 | afternoons: 午後 | evenings: 夕方 | nights: 夜 | noon: 正午 |
        spring: 春 | summer: 夏 | autumn: 秋 | winter: 冬 | daily: 毎日 | weekly: 毎週 | monthly: 毎月 | yearly: 毎年
    """,
    units="""
        kilometre: キロメートル | metre: メートル | hour: 時間 | minute: 分 | second: 秒 | day: 日間 | month: か月
        ヶ月 | year: 歳 | jpy: 円 | usd: ドル | eur: ユーロ | percent: パーセント | kilogram: キログラム キロ | gram:
        グラム | mile: マイル | pound: ポンド
    """,
    negations="ない ません なかった なく なし ぬ ず 非ず ないで 無し",
    opposites="""
        open: 開い 開け 開く 開店 営業中 / 閉ま 閉め 閉じ 閉店 |
        relative: 兄 弟 / 姉 妹 / 母 お母さん / 父 お父さん / 息子 / 娘 / 祖母 おばあさん / 祖父 おじいさん / 妻
            奥さん / 夫 |
        gender: 男性 男の / 女性 女の |
        pronoun: 彼は 彼が 彼の / 彼女 |
        allowed: 許可 可能 / 禁止 不可 |
        enabled: 有効 オン / 無効 オフ |
        height: 高い 高く / 低い 低く |
        size: 大きい 大きな / 小さい 小さな |
        length: 長い / 短い |
        newness: 新しい / 古い |
        heat: 熱い 暑い ホット / 冷たい 寒い アイス / 暖かい 温かい |
        timeliness: 早い 早く / 遅い 遅く |
        often: いつも 常に / 時々 / たまに |
        everything: 全部 すべて 全て / 一部 |
        start: 始ま 始め 開始 / 終わ 終了 止め 停止 |
        buy: 買っ 買う 買い 購入 / 売っ 売る 売り 販売 |
        lend: 貸し 貸す / 借り |
        win: 勝っ 勝つ 勝ち / 負け |
        arrive: 到着 着く 着い / 出発 |
        accept: 受け入れ 承認 / 拒否 断 |
        increase: 増え 増加 上が 上昇 / 減っ 減少 下が 低下 |
        correct: 正しい / 間違 誤 |
        quality: 良い 好き いい / 悪い |
        safe: 安全 / 危険 |
        public: 公開 / 非公開 秘密 |
        interior: 中 内側 屋内 / 外 外側 屋外 |
        near: 近い 近く / 遠い 遠く |
        teach: 先生 教師 / 生徒 学生 |
        medical: 医者 医師 / 患者 |
        marriage: 既婚 結婚し / 独身 未婚 / 離婚 |
        life: 生き / 死ん 亡くな |
        speed: 速い / 遅い |
        weight: 重い / 軽い |
        difficulty: 難しい / 簡単 易しい |
        price: 高い / 安い |
        charge: 無料 / 有料 |
        manual: 手動 / 自動 |
        transfer: 輸入 / 輸出 |
        load: アップロード / ダウンロード |
        adding: 追加 / 削除 |
        bound: 最大 / 最小 |
        taste: 甘い / 酸っぱい / 苦い / 辛い / しょっぱい |
        meal: 朝食 朝ごはん / 昼食 昼ごはん / 夕食 晩ごはん |
        voting: 賛成 / 反対 |
        memory: 覚え / 忘れ |
        success: 成功 合格 / 失敗 不合格 |
        colour: 赤 / 青 / 緑 / 黄 / 紫 / 黒 / 白 / 灰色 / 茶色 |
        love: 好き 愛し / 嫌い 憎 |
        online: オンライン / オフライン
    """,
    doubtful="""
        必ず まず ずっと いずれ はず わずか みず 少なく ぬる いぬ きず 恥ずかし 数ず ずつ なくした かなしい 危ない
        ぬい 少ない ぬれ しぬ おまえず 犬 ねず きずな たぬき
    """,
)

KOREAN: Final = Language(
    code="ko",
    function_words="은 는 이 가 을 를 에 의 도 로 와 과 하 다 고 서 지 기 그 저 것 수 등 및 에서 으로 그리고",
    light_words="사 용 자 님 습 니 까 요 입 있 합 하 해 했 매우 아주 정말 아 주 정 말 매 우",
    copulas="이다 입니다",
    conjunctions="와 과 그리고",
    more_numbers="""
        하나:1 둘:2 두:2 셋:3 세:3 넷:4 네:4 다섯:5 여섯:6 일곱:7 여덟:8 아홉:9 열:10 스무:20 스물:20 서른:30 마흔:40
        쉰:50 예순:60 백:100 천:1000 억:100000000 첫:1st 첫째:1st 둘째:2nd 셋째:3rd
    """,
    dates="""
        yesterday: 어제 | today: 오늘 | tomorrow: 내일 | ereyesterday: 그저께 | overmorrow: 모레 | monday: 월요일 |
        tuesday: 화요일 | wednesday: 수요일 | thursday: 목요일 | friday: 금요일 | saturday: 토요일 | sunday: 일요일 |
        thisweek: 이번_주 이번주 | nextweek: 다음_주 다음주 | lastweek: 지난_주 지난주 | thismonth: 이번_달 이번달 |
        nextmonth: 다음_달 다음달 | lastmonth: 지난_달 지난달 | thisyear: 올해 | nextyear: 내년 | lastyear: 작년 |
        mornings: 아침 오전 | afternoons: 오후 | evenings: 저녁 | nights: 밤 | noon: 정오 | spring: 봄 | summer: 여름
        | autumn: 가을 | winter: 겨울 | daily: 매일 | weekly: 매주 | monthly: 매월 | yearly: 매년
    """,
    units="""
        hour: 시간 | minute: 분 | second: 초 | day: 일 | month: 개월 | year: 년 살 | krw: 원 | usd: 달러 | eur: 유로 |
        jpy: 엔 | kilometre: 킬로미터 | metre: 미터 | kilogram: 킬로그램 킬로 | percent: 퍼센트 | person: 명
    """,
    negations="안_ 않 못 없 아니 말고 말아 싫",
    opposites="""
        open: 열려 열린 열었 엽니 연다 / 닫혀 닫힌 닫았 닫습 닫는 |
        side: 왼쪽 / 오른쪽 |
        before: 전에 / 후에 |
        relative: 형 오빠 남동생 / 누나 언니 여동생 / 어머니 엄마 / 아버지 아빠 / 아들 / 딸 / 할머니 / 할아버지 / 이모
            고모 / 삼촌 / 아내 / 남편 |
        gender: 남자 남성 / 여자 여성 |
        allowed: 허용 허락 / 금지 |
        enabled: 활성 켜 / 비활성 꺼 |
        valid: 유효 / 무효 |
        amount: 더_많 / 더_적 |
        height: 높 / 낮 |
        size: 큰 크 / 작 |
        length: 긴 길 / 짧 |
        newness: 새 / 오래 낡 |
        heat: 뜨거 더운 / 차가 추운 / 따뜻 |
        timeliness: 일찍 / 늦게 |
        often: 항상 / 가끔 / 자주 |
        everything: 모두 모든 / 일부 |
        start: 시작 / 끝 종료 중단 |
        buy: 샀 사는 구매 구입 / 팔 판매 |
        lend: 빌려주 빌려준 빌려줬 / 빌렸 빌린 |
        win: 이겼 이긴 승리 / 졌 패배 |
        arrive: 도착 / 출발 |
        accept: 수락 승인 / 거절 거부 |
        increase: 증가 올랐 상승 / 감소 내렸 하락 |
        quality: 좋 / 나쁘 나쁜 |
        safe: 안전 / 위험 |
        public: 공개 / 비공개 비밀 |
        interior: 안쪽 내부 실내 / 바깥 외부 실외 |
        near: 가까 / 멀 |
        compass: 북 / 남쪽 / 동쪽 / 서쪽 |
        teach: 선생 교사 / 학생 |
        medical: 의사 / 환자 |
        marriage: 기혼 결혼 / 미혼 독신 / 이혼 |
        life: 살아 / 죽 |
        speed: 빠르 빠른 / 느리 느린 |
        weight: 무거 / 가벼 |
        difficulty: 어려 / 쉬 |
        price: 비싸 비싼 / 싸다 싼 |
        charge: 무료 / 유료 |
        manual: 수동 / 자동 |
        transfer: 수입 / 수출 |
        load: 업로드 / 다운로드 |
        adding: 추가 / 삭제 제거 |
        bound: 최대 / 최소 |
        taste: 단맛 / 신맛 / 쓴맛 / 매운 |
        meal: 아침_식사 / 점심 / 저녁_식사 |
        memory: 기억 / 잊 |
        success: 성공 합격 / 실패 불합격 |
        colour: 빨간 빨강 / 파란 파랑 / 초록 녹색 / 노란 노랑 / 보라 / 검은 검정 / 흰 하얀 / 회색 |
        love: 좋아 사랑 / 싫어 미워
    """,
    doubtful="안녕 안경 안내 안전 안쪽 못지않 어머니 할머니 아니메 잘못 편안 동안 불안 안정 못한다면 안에",
)

THAI: Final = Language(
    code="th",
    function_words="ที่ และ ของ ใน เป็น มี ได้ ให้ กับ จะ ว่า การ ไป มา นี้",
    copulas="เป็น คือ",
    conjunctions="และ หรือ กับ",
    dates="""
        yesterday: เมื่อวาน | today: วันนี้ | tomorrow: พรุ่งนี้ | lastweek: สัปดาห์ที่แล้ว | thisweek: สัปดาห์นี้ | nextweek:
        สัปดาห์หน้า
    """,
    negations="ไม่ มิได้ ไร้ อย่า",
    opposites="""
        open: เปิด / ปิด |
        side: ซ้าย / ขวา |
        before: ก่อน / หลัง |
        heat: ร้อน / เย็น หนาว |
        size: ใหญ่ / เล็ก |
        buy: ซื้อ / ขาย |
        allowed: อนุญาต / ห้าม |
        love: ชอบ รัก / เกลียด |
        colour: แดง / น้ำเงิน / เขียว / ดำ / ขาว
    """,
)
